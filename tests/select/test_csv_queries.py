from __future__ import annotations

import gzip

import pytest

from lakebed.core.errors import SelectError
from lakebed.select.model import Compression, CsvInput, CsvOutput, HeaderUse, JsonOutput, QuoteFields

from .running import HEADED, objects, rows, select

PEOPLE = b"""name,age,City
Ann,31,Oslo
Bob,28,"Rome, IT"
Cid,45,Lima
Dot,,Rio
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT * FROM S3Object", ["Ann,31,Oslo", 'Bob,28,"Rome, IT"', "Cid,45,Lima", "Dot,,Rio"]),
        ("SELECT s.* FROM S3Object s LIMIT 1", ["Ann,31,Oslo"]),
        ("SELECT name FROM S3Object", ["Ann", "Bob", "Cid", "Dot"]),
        ("SELECT NAME FROM s3object WHERE city = 'Lima'", ["Cid"]),
        ("SELECT s.name FROM S3Object AS s WHERE s.age > 30", ["Ann", "Cid"]),
        ("SELECT s._1, s._3 FROM S3Object s LIMIT 2", ["Ann,Oslo", 'Bob,"Rome, IT"']),
        ("SELECT S3Object.name FROM S3Object LIMIT 1", ["Ann"]),
        ("SELECT name FROM S3Object WHERE age = ''", ["Dot"]),
        ("SELECT name FROM S3Object WHERE age IS NULL", []),
        ("SELECT name FROM S3Object LIMIT 0", []),
        ("SELECT COUNT(*) FROM S3Object", ["4"]),
        ("SELECT COUNT(*), MIN(name), MAX(age) FROM S3Object WHERE age <> ''", ["3,Ann,45"]),
        (
            "SELECT SUM(CAST(age AS INT)), AVG(CAST(age AS INT)) FROM S3Object WHERE age <> ''",
            ["104,34.66666666666666"],
        ),
        ("SELECT MIN(int(_2)) + 1 FROM S3Object WHERE age <> ''", ["29"]),
        ("SELECT name FROM S3Object WHERE name LIKE '_o%'", ["Bob", "Dot"]),
        ("SELECT name FROM S3Object WHERE name NOT IN ('Ann', 'Bob')", ["Cid", "Dot"]),
        ("SELECT name FROM S3Object WHERE CAST(NULLIF(age, '') AS INT) BETWEEN 28 AND 31", ["Ann", "Bob"]),
        ("SELECT CASE WHEN age = '' THEN 'none' ELSE age END FROM S3Object", ["31", "28", "45", "none"]),
        ("SELECT CASE name WHEN 'Ann' THEN 1 ELSE 2 END AS n FROM S3Object LIMIT 2", ["1", "2"]),
        ("SELECT UPPER(name) || '!' FROM S3Object LIMIT 1", ["ANN!"]),
        ("SELECT CHAR_LENGTH(city), LOWER(city) FROM S3Object LIMIT 1", ["4,oslo"]),
        (
            "SELECT SUBSTRING(name, 2), SUBSTRING(name FROM 1 FOR 2), SUBSTRING(name, -4) FROM S3Object LIMIT 1",
            ["nn,An,Ann"],
        ),
        (
            "SELECT TRIM('  x '), TRIM(LEADING '0' FROM '007'), TRIM(TRAILING FROM 'a ') FROM S3Object LIMIT 1",
            ["x,7,a"],
        ),
        ("SELECT COALESCE(NULLIF(age, ''), 'none') FROM S3Object WHERE name = 'Dot'", ["none"]),
        ("SELECT city, COUNT(*) FROM S3Object GROUP BY city ORDER BY city LIMIT 2", ["Lima,1", "Oslo,1"]),
        ("SELECT name FROM S3Object ORDER BY CAST(NULLIF(age, '') AS INT) DESC NULLS LAST LIMIT 2", ["Cid", "Ann"]),
        ("SELECT int(_2) AS years FROM S3Object WHERE age <> '' AND years > 30", ["31", "45"]),
        ("SELECT TRUE, NOT TRUE, 1 = 1 FROM S3Object LIMIT 1", ["true,false,true"]),
        ("SELECT 7 / 2, 7 % 2, -3 * 2, 1.5 + 1 FROM S3Object LIMIT 1", ["3,1,-6,2.5"]),
        ("SELECT name FROM S3Object WHERE (name = 'Ann') = true", ["Ann"]),
        ("SELECT name FROM S3Object s WHERE s.name IS MISSING", []),
        ("SELECT 'it''s' FROM S3Object LIMIT 1;", ["it's"]),
    ],
)
def test_queries_with_a_header(expression: str, expected: list[str]) -> None:
    assert rows(expression, PEOPLE, HEADED) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT UTCNOW() FROM S3Object LIMIT 1", ["2026-11-15T12:30:45.123Z"]),
        ("SELECT DATE_ADD(year, 5, `2010-01-01T`) FROM S3Object LIMIT 1", ["2015-01-01T"]),
        ("SELECT DATE_ADD(hour, 1, TO_TIMESTAMP('2017T')) FROM S3Object LIMIT 1", ["2017-01-01T01:00Z"]),
        ("SELECT DATE_DIFF(month, `2010T`, `2010-05T`) FROM S3Object LIMIT 1", ["4"]),
        ("SELECT EXTRACT(YEAR FROM TO_TIMESTAMP('2010-02-03T04:05:06-07:00')) FROM S3Object LIMIT 1", ["2010"]),
        ("SELECT EXTRACT(timezone_hour FROM `2010-02-03T04:05:06-07:00`) FROM S3Object LIMIT 1", ["-7"]),
        ("SELECT TO_STRING(`1969-07-20T20:18Z`, 'MMMM d, y') FROM S3Object LIMIT 1", ['"July 20, 1969"']),
        ("SELECT CAST('2010-01-01' AS TIMESTAMP) FROM S3Object LIMIT 1", ["2010-01-01T"]),
        ("SELECT _1 FROM S3Object WHERE TO_TIMESTAMP(_1) < `2011T`", ["2010-05-01T"]),
        ("SELECT MAX(TO_TIMESTAMP(_1)) FROM S3Object", ["2012-05-01T00:00:00Z"]),
    ],
)
def test_timestamps(expression: str, expected: list[str]) -> None:
    assert rows(expression, b"2010-05-01T\n2012-05-01T\n") == expected


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("SELECT nope FROM S3Object", "MissingHeaderName"),
        ("SELECT _9 FROM S3Object", "InvalidColumnIndex"),
        ('SELECT "NAME" FROM S3Object', "MissingHeaderName"),
        ("SELECT CAST(name AS INT) FROM S3Object", "CastFailed"),
        ("SELECT CAST(name AS BANANA) FROM S3Object", "ParseExpectedTypeName"),
        ("SELECT CAST(age AS INT) * 9223372036854775807 FROM S3Object WHERE age <> ''", "IntegerOverflow"),
        ("SELECT SUM(CAST(age AS INT) + 9223372036854775700) FROM S3Object WHERE age <> ''", "IntegerOverflow"),
        ("SELECT 1 / 0 FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT FOO(name) FROM S3Object", "UnsupportedFunction"),
        ("SELECT COUNT(name, age) FROM S3Object", "ParseNonUnaryAgregateFunctionCall"),
        ("SELECT SUM(*) FROM S3Object", "ParseUnsupportedCallWithStar"),
        ("SELECT LOWER(name, 1) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT DATE_ADD(fortnight, 1, `2010T`) FROM S3Object", "ParseExpectedDatePart"),
        ("SELECT DATE_ADD(timezone_hour, 1, `2010T`) FROM S3Object", "ParseExpectedDatePart"),
        ("SELECT TO_STRING(`2010T`, 'yyy') FROM S3Object", "EvaluatorInvalidTimestampFormatPatternToken"),
        ("SELECT TO_TIMESTAMP(name) FROM S3Object", "CastFailed"),
        ("SELECT `never` FROM S3Object", "LexerInvalidIONLiteral"),
        ("SELECT name FROM S3Object WHERE name LIKE 'a!' ESCAPE '!'", "EvaluatorLikePatternInvalidEscapeSequence"),
        ("SELECT name FROM S3Object WHERE 1 LIKE 'a'", "LikeInvalidInputs"),
        ("SELECT name, COUNT(*) FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT name, COUNT(*) FROM S3Object GROUP BY age", "UnsupportedSqlStructure"),
        ("SELECT a AS b, b AS a FROM S3Object", "ParseUnsupportedAlias"),
        ("SELECT s.name.first FROM S3Object s", "InvalidKeyPath"),
        ("SELECT name FROM S3Object WHERE -name", "InvalidDataType"),
        ("SELECT * FROM S3Object[*].path", "DataSourcePathUnsupported"),
        ("SELECT name FROM S3Object WHERE name IN 1", "ParseExpectedLeftParenValueConstructor"),
    ],
)
def test_errors_have_their_s3_code(expression: str, code: str) -> None:
    with pytest.raises(SelectError) as raised:
        select(expression, PEOPLE, HEADED)
    assert raised.value.code == code


def test_error_for_unknown_column_lists_existing_ones() -> None:
    with pytest.raises(SelectError) as raised:
        select("SELECT nme FROM S3Object", PEOPLE, HEADED)
    assert str(raised.value).startswith("no such column. name=nme columns=name, age")
    with pytest.raises(SelectError) as raised:
        select("SELECT s.nothing FROM S3Object s", b"1,2\n")
    assert str(raised.value) == "no such column. name=nothing columns=_1, _2"


def test_error_for_unknown_column_lists_the_first_of_many() -> None:
    many = ",".join(f"c{number}" for number in range(60)).encode()
    with pytest.raises(SelectError) as raised:
        select("SELECT d FROM S3Object", many + b"\n" + many, HEADED)
    assert str(raised.value).endswith(" c48, c49, … 10 more")


def test_quoted_names_distinguish_case() -> None:
    data = b"name,NAME\n1,2\n"
    with pytest.raises(SelectError) as raised:
        select("SELECT name FROM S3Object", data, HEADED)
    assert raised.value.code == "AmbiguousFieldName"
    assert rows('SELECT "NAME" FROM S3Object', data, HEADED) == ["2"]


def test_header_may_be_skipped_or_data() -> None:
    assert rows("SELECT _1 FROM S3Object LIMIT 1", PEOPLE, CsvInput(header=HeaderUse.IGNORE)) == ["Ann"]
    assert rows("SELECT _1 FROM S3Object LIMIT 1", PEOPLE) == ["name"]


def test_records_have_names_in_json() -> None:
    assert objects("SELECT name, age AS years, 1 FROM S3Object LIMIT 1", PEOPLE, HEADED) == [
        {"name": "Ann", "years": "31", "_3": 1}
    ]
    assert objects("SELECT * FROM S3Object LIMIT 1", b"a,b\n") == [{"_1": "a", "_2": "b"}]


def test_json_output_is_escaped() -> None:
    assert objects("SELECT _1 FROM S3Object", b'"a""\\\tb"\n') == [{"_1": 'a"\\\tb'}]


def test_fields_are_quoted_always_or_as_needed() -> None:
    data = b'a,"b""c"\n'
    assert rows("SELECT * FROM S3Object", data) == ['a,"b""c"']
    always = CsvOutput(QuoteFields.ALWAYS, quote="'", escape="\\", field_delimiter=";", record_delimiter="|")
    assert select("SELECT *, 'it''s' FROM S3Object".replace("*,", "_1,"), data, None, always) == "'a';'it\\'s'|"


def test_compressed_object_is_read() -> None:
    packed = gzip.compress(PEOPLE)
    assert rows("SELECT name FROM S3Object LIMIT 1", packed, HEADED, compression=Compression.GZIP) == ["Ann"]


def test_scan_ranges_cover_every_record_once() -> None:
    data = b"id,text\n" + b"".join(b"%d,%s\n" % (number, b"x" * (number % 7)) for number in range(500))
    everything = rows("SELECT id FROM S3Object", data, HEADED)
    for size in (64, 333, 1000):
        pieces = [
            rows("SELECT id FROM S3Object", data, HEADED, scan=(start, start + size - 1))
            for start in range(0, len(data), size)
        ]
        assert [line for piece in pieces for line in piece] == everything


def test_object_without_records_returns_none() -> None:
    for data in (b"", b"name,age\n"):
        assert rows("SELECT * FROM S3Object", data, HEADED) == []
        assert rows("SELECT COUNT(*) FROM S3Object", data, HEADED) == ["0"]
    assert rows("SELECT SUM(CAST(age AS INT)) FROM S3Object", b"name,age\n", HEADED) == [""]


def test_order_is_kept_with_several_readers() -> None:
    data = b"".join(b"%d,%s\n" % (number, b"y" * 40) for number in range(400_000))
    found = rows("SELECT _1 FROM S3Object WHERE CAST(_1 AS INT) % 1000 = 7", data)
    assert found == [str(number) for number in range(7, 400_000, 1000)]
    assert rows("SELECT _1 FROM S3Object LIMIT 3", data) == ["0", "1", "2"]


def test_quoted_newlines_are_read_if_allowed() -> None:
    data = b'1,"two\nlines"\n' * 3
    allowed = CsvInput(allow_quoted_record_delimiter=True)
    assert select("SELECT _2 FROM S3Object LIMIT 1", data, allowed) == '"two\nlines"\n'
    assert rows("SELECT COUNT(*) FROM S3Object", data, allowed) == ["3"]
    with pytest.raises(SelectError) as raised:
        select("SELECT _2 FROM S3Object", data)
    assert raised.value.code == "CSVEscapingRecordDelimiter"


def test_null_is_empty_in_csv_and_null_in_json() -> None:
    assert rows("SELECT NULL, _3 FROM S3Object", b"1,2,3\n1,2\n") == [",3", ","]
    assert objects("SELECT _3 FROM S3Object", b"1,2,3\n1,2\n") == [{"_3": "3"}, {"_3": None}]


def test_long_chains_of_conditions_are_evaluated() -> None:
    condition = " OR ".join(f"_1 = '{number}'" for number in range(2000))
    assert rows(f"SELECT COUNT(*) FROM S3Object WHERE {condition}", b"1\n5\nx\n") == ["2"]


def test_json_output_uses_its_record_delimiter() -> None:
    assert (
        select("SELECT _1 FROM S3Object", b"1\n2\n", None, JsonOutput(record_delimiter=";")) == '{"_1":"1"};{"_1":"2"};'
    )
