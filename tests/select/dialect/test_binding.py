from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.dialect.binding import like_pattern
from tests.select.running import HEADED, objects, rows, select

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@settings(max_examples=50)
@given(texts)
def test_any_text_is_bound_as_a_literal(text: str) -> None:
    quoted = text.replace("'", "''")
    assert objects(f"SELECT '{quoted}' AS a FROM S3Object", b"1\n") == [{"a": text}]


@settings(max_examples=50)
@given(texts.filter(lambda text: not set(text) & set("\r\n#\ufeff")))
def test_any_quoted_name_is_bound_as_a_column(name: str) -> None:
    head = io.StringIO()
    csv.writer(head, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow([name, "other"])
    quoted = name.replace('"', '""')
    found = objects(f'SELECT s."{quoted}" FROM S3Object s', head.getvalue().encode() + b"1,2\n", HEADED)
    assert found == [{name: "1"}]


@pytest.mark.parametrize(
    "expression",
    [
        "SELECT version() FROM S3Object",
        "SELECT * FROM S3Object WHERE EXISTS (SELECT 1)",
        "SELECT a FROM S3Object WHERE a = @x",
        "SELECT a::int FROM S3Object s",
        "SELECT x -> x + 1 FROM S3Object",
        "SELECT INTERVAL '1' DAY FROM S3Object",
        "SELECT ARRAY[1] FROM S3Object",
        "SELECT {'a': 1} FROM S3Object",
        "SELECT SUM(_1) OVER w FROM S3Object",
        "SELECT UPPER(_1) OVER () FROM S3Object",
        "SELECT ROW_NUMBER(_1) OVER () FROM S3Object",
        "SELECT SUM(_1) OVER (ORDER BY _1 ROWS 1 + 1 PRECEDING) FROM S3Object",
        "SELECT SUM(_1) OVER (ORDER BY _1 GROUPS UNBOUNDED PRECEDING) FROM S3Object",
        "SELECT * FROM S3Object, information_schema.tables",
        "SELECT read_csv('/etc/passwd') FROM S3Object",
        "SELECT * FROM '/etc/passwd'",
        "COPY S3Object TO '/tmp/x'",
        "SELECT a FROM S3Object; DROP TABLE s3object",
        "SELECT _1 FROM S3Object WHERE s3_holds(TRUE)",
        "SELECT _1 RLIKE 'a' FROM S3Object",
        "SELECT _1 ILIKE 'a' FROM S3Object",
        "SELECT _1 <=> 'a' FROM S3Object",
        "SELECT 1 & 2 FROM S3Object",
        "SELECT CURRENT_USER FROM S3Object",
    ],
)
def test_syntax_outside_the_dialect_is_rejected(expression: str) -> None:
    with pytest.raises(SelectError):
        select(expression, b"a,b\n1,2\n")


@pytest.mark.parametrize(
    ("pattern", "escape", "made"),
    [("a%_", "", "a%_"), ("a\\b", "", "a\\\\b"), ("5!%!!", "!", "5\\%\\!"), ("\\%", "\\", "\\%")],
)
def test_like_patterns_are_escaped_for_datafusion(pattern: str, escape: str, made: str) -> None:
    assert like_pattern(pattern, escape) == made


def test_like_patterns_match_newlines_and_backslashes() -> None:
    assert rows("SELECT COUNT(*) FROM S3Object WHERE _1 LIKE 'a\\b%'", b"a\\bc\nabc\n") == ["1"]
    assert rows("SELECT COUNT(*) FROM S3Object WHERE _1 LIKE '%!_%' ESCAPE '!'", b"a_c\nabc\n") == ["1"]


@pytest.mark.parametrize("depth", [30, 90])
def test_deep_nesting_is_evaluated_or_rejected(depth: int) -> None:
    expression = "SELECT " + "-(" * depth + "1" + ")" * depth + " FROM S3Object"
    if depth < 60:
        assert rows(expression, b"x\n") == ["1"]
    else:
        with pytest.raises(SelectError) as raised:
            select(expression, b"x\n")
        assert raised.value.code == "MaxOperatorsExceeded"


def test_large_integers_are_compared_exactly() -> None:
    data = b"9007199254740993\n9007199254740992\n"
    assert rows("SELECT _1 FROM S3Object WHERE _1 = 9007199254740993", data) == ["9007199254740993"]
