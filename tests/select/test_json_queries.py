from __future__ import annotations

import datetime
import io
import json

import fastavro
import pytest

from lakebed.core.errors import SelectError
from lakebed.select.errors import SelectCode
from lakebed.select.formats import json_relation
from lakebed.select.formats.json_scanner import load_library
from lakebed.select.model import AvroInput, CsvOutput, JsonInput, JsonOutput, Output

from .running import DOCUMENT, LINES, objects, rows, select

RECORDS = b"""{"name":"Ann","age":31,"tags":["x","y"],"home":{"city":"Oslo"}}
{"name":"Bob","age":28.5,"home":null}

{"name":"Cid","Age":45,"tags":[],"big":12345678901234567890}
"""


@pytest.fixture(autouse=True, params=["by the library", "value by value"])
def line_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both readers of JSON lines; the first requires a C compiler."""
    if request.param == "value by value":
        monkeypatch.setattr(json_relation, "load_library", lambda: None)
    elif load_library() is None:
        pytest.skip("the package was built without a C compiler")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT s.name FROM S3Object s", [{"name": "Ann"}, {"name": "Bob"}, {"name": "Cid"}]),
        ("SELECT s.home.city FROM S3Object s", [{"city": "Oslo"}, {}, {}]),
        ("SELECT s.home FROM S3Object s", [{"home": {"city": "Oslo"}}, {"home": None}, {}]),
        ("SELECT s.tags[1] AS second FROM S3Object[*] s", [{"second": "y"}, {}, {}]),
        ("SELECT s['name'] FROM S3Object s LIMIT 1", [{"name": "Ann"}]),
        ("SELECT s.name FROM S3Object s WHERE s.age > 30", [{"name": "Ann"}]),
        ("SELECT s.name FROM S3Object s WHERE s.age IS MISSING", [{"name": "Cid"}]),
        ("SELECT s.name FROM S3Object s WHERE s.home IS NULL", [{"name": "Bob"}, {"name": "Cid"}]),
        ("SELECT s.name FROM S3Object s WHERE s.home IS NOT MISSING AND s.home IS NULL", [{"name": "Bob"}]),
        ("SELECT COUNT(s.age), SUM(s.age) FROM S3Object s", [{"_1": 2, "_2": 59.5}]),
        ("SELECT s.age + 1 AS older FROM S3Object s LIMIT 1", [{"older": 32}]),
        ("SELECT s.name FROM S3Object s WHERE s.home.city = 'Oslo'", [{"name": "Ann"}]),
        ("SELECT MISSING FROM S3Object s LIMIT 1", [{"_1": None}]),
    ],
)
def test_queries_on_lines(expression: str, expected: list[object]) -> None:
    assert objects(expression, RECORDS, LINES) == expected


def test_record_keeps_its_text() -> None:
    lines = [line for line in RECORDS.decode().splitlines() if line]
    assert select("SELECT * FROM S3Object", RECORDS, LINES, JsonOutput()).splitlines() == lines
    assert rows("SELECT * FROM S3Object s WHERE s.name = 'Bob'", RECORDS, LINES) == ["Bob,28.5,"]


def test_several_records_on_one_line_are_separated() -> None:
    block = b'{"a":1} {"a": 2}\n{"a":3}\n'
    assert select("SELECT * FROM S3Object", block, LINES, JsonOutput()).splitlines() == [
        '{"a":1}',
        '{"a":2}',
        '{"a":3}',
    ]


def test_names_are_case_insensitive_unless_ambiguous() -> None:
    with pytest.raises(SelectError) as raised:
        select("SELECT s.AGE FROM S3Object s", RECORDS, LINES)
    assert raised.value.code == "AmbiguousFieldName"
    assert objects("SELECT s.NAME FROM S3Object s LIMIT 1", RECORDS, LINES) == [{"name": "Ann"}]
    assert objects('SELECT s."Age" FROM S3Object s WHERE s."Age" = 45', RECORDS, LINES) == [{"Age": 45}]


PLACES = json.dumps(
    {"root": {"rows": [{"c1": 1, "in": [{"d": 1}, {"d": 2}]}, {"c1": 2, "in": []}, {"c2": 3}]}}, indent=2
).encode()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT _1.c1 FROM S3Object[*].root.rows[*]", [{"c1": 1}, {"c1": 2}, {}]),
        ("SELECT r.c1 FROM S3Object[*].root.rows[*] r WHERE r.c1 = 2", [{"c1": 2}]),
        ("SELECT x.d FROM S3Object[*].root.rows[*]['in'][*] x", [{"d": 1}, {"d": 2}, {}, {}]),
        ("SELECT rows[0].c1 FROM S3Object[*].root", [{"c1": 1}]),
        ("SELECT root.rows[0].c1 FROM S3Object.root", [{"c1": 1}]),
        ("SELECT s.root.rows[2].c2 FROM S3Object s", [{"c2": 3}]),
        ("SELECT COUNT(*) FROM S3Object[*].root.rows[*]", [{"_1": 3}]),
        ("SELECT COUNT(r.c1) FROM S3Object[*].root.rows[*] r", [{"_1": 2}]),
        ("SELECT * FROM S3Object[*].nowhere[*]", [{}]),
        ("SELECT * FROM S3Object[*].root.rows[1]", [{"c1": 2, "in": []}]),
    ],
)
def test_queries_on_a_document(expression: str, expected: list[object]) -> None:
    assert objects(expression, PLACES, DOCUMENT) == expected


def test_root_list_is_one_value() -> None:
    data = b'[{"a":1},{"a":2}]'
    assert objects("SELECT * FROM S3Object[*][*]", data, DOCUMENT) == [{"a": 1}, {"a": 2}]
    assert objects("SELECT * FROM S3Object", data, DOCUMENT) == [{"_1": [{"a": 1}, {"a": 2}]}]
    assert objects("SELECT * FROM S3Object[*][*] x WHERE x.a = 2", data, LINES) == [{"a": 2}]


def test_values_are_converted_to_the_kind_they_are_compared_with() -> None:
    data = b'{"v":1}\n{"v":"b"}\n{"v":true}\n{"v":"7"}\n'
    assert objects("SELECT s.v FROM S3Object s WHERE s.v > 0", data, LINES) == [{"v": 1}, {"v": "7"}]
    assert objects("SELECT s.v FROM S3Object s WHERE s.v = 'b'", data, LINES) == [{"v": "b"}]
    assert objects("SELECT s.v FROM S3Object s WHERE s.v = true", data, LINES) == [{"v": True}]


def test_invalid_json_is_rejected() -> None:
    for data, kind in ((b'{"a":1}\n{"a":\n', LINES), (b'{"a":1} {"a"', DOCUMENT)):
        with pytest.raises(SelectError) as raised:
            select("SELECT * FROM S3Object", data, kind)
        assert raised.value.code == "JSONParsingError"


def test_fraction_after_sampled_integers_is_rejected() -> None:
    data = b'{"v":1}\n' * 20_000 + b'{"v":1.5}\n'
    with pytest.raises(SelectError) as raised:
        select("SELECT SUM(s.v) FROM S3Object s", data, LINES)
    assert raised.value.code == "InvalidDataType"
    assert rows("SELECT SUM(CAST(s.v AS FLOAT)) FROM S3Object s WHERE s.v < 1.2", data, LINES) == ["20000"]


def test_scan_ranges_cover_every_record_once() -> None:
    data = b"".join(b'{"n":%d}\n' % number for number in range(300))
    found = [
        line
        for start in range(0, len(data), 97)
        for line in rows("SELECT s.n FROM S3Object s", data, LINES, scan=(start, start + 96))
    ]
    assert found == [str(number) for number in range(300)]


def test_nested_values_are_json_in_csv() -> None:
    assert select("SELECT s.tags FROM S3Object s LIMIT 1", RECORDS, LINES, CsvOutput()) == '"[""x"",""y""]"\n'


def test_avro_records_are_read_like_json() -> None:
    sink = io.BytesIO()
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": "long"},
            {"name": "b", "type": ["null", "string"]},
            {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    day = datetime.date(2020, 1, 2)
    fastavro.writer(sink, schema, [{"a": n, "b": None if n % 2 else f"b{n}", "d": day} for n in range(10_000)])
    assert rows("SELECT COUNT(*), SUM(s.a), COUNT(s.b) FROM S3Object s", sink.getvalue(), AvroInput()) == [
        "10000,49995000,5000"
    ]
    assert objects("SELECT * FROM S3Object s WHERE s.a = 2", sink.getvalue(), AvroInput()) == [
        {"a": 2, "b": "b2", "d": "2020-01-02"}
    ]
    for damaged in (b"", b"no avro", sink.getvalue()[:5000]):
        with pytest.raises(SelectError) as raised:
            select("SELECT COUNT(*) FROM S3Object s WHERE s.a > 0", damaged, AvroInput())
        assert raised.value.code == "UnrecognizedFormatException"


def _nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + "1" + closing * depth


def _error(expression: str, records: bytes, read: JsonInput, write: Output) -> SelectError | None:
    """The error of a select; None if it succeeds."""
    try:
        select(expression, records, read, write)
    except SelectError as refused:
        return refused
    return None


DEEP = {
    "a list": _nested("[", "]", 100_000),
    "an object": _nested('{"a":', "}", 100_000),
    "as deep as the stack": _nested("[", "]", 960),
}


@pytest.mark.parametrize("nested", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("before", [0, 2000], ids=["in the sample", "after the sample"])
@pytest.mark.parametrize("write", [CsvOutput(), JsonOutput()], ids=["csv", "json"])
@pytest.mark.parametrize(
    ("read", "expression"),
    [
        *((LINES, f"SELECT {what} FROM S3Object s") for what in ("*", "s.name", "s.deep", "s.deep[0]", "COUNT(*)")),
        (LINES, "SELECT s.name FROM S3Object s WHERE s.deep IS NOT MISSING"),
        (LINES, "SELECT s.a FROM S3Object[*].deep s"),
        (LINES, "SELECT * FROM S3Object[*].deep[*] s"),
        *((DOCUMENT, f"SELECT {what} FROM S3Object s") for what in ("*", "s.name", "s.deep", "COUNT(*)")),
        (DOCUMENT, "SELECT * FROM S3Object[*].deep s"),
        (DOCUMENT, "SELECT * FROM S3Object[*].deep[*] s"),
        (DOCUMENT, "SELECT * FROM S3Object[*].name s"),
    ],
)
def test_deep_nesting_is_read_or_rejected(
    expression: str, read: JsonInput, write: Output, before: int, nested: str
) -> None:
    records = b'{"name":"x","deep":[[1]]}\n' * before + b'{"name":"y","deep":%b}\n' % nested.encode()
    problem = _error(expression, records, read, write)
    assert problem is None or (problem.code, "nested too deeply" in str(problem)) == (
        SelectCode.JSON_PARSING_ERROR,
        True,
    )
