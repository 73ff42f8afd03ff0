from __future__ import annotations

import pytest
from sqlglot import exp

from lakebed.core.errors import SelectError
from lakebed.select.dialect.parser import parse
from lakebed.select.dialect.paths import FieldName, Index, Path
from lakebed.select.dialect.syntax import chain, check_depth, is_missing_keyword, path_of


def value(text: str) -> exp.Expression:
    first: exp.Expression = parse(f"SELECT {text} FROM S3Object s").select.expressions[0]
    return first


def condition(text: str) -> exp.Expression:
    where: exp.Expression = parse(f"SELECT * FROM S3Object s WHERE {text}").select.args["where"].this
    return where


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", (FieldName("a"),)),
        ('s."A b".c', (FieldName("s"), FieldName("A b", quoted=True), FieldName("c"))),
        ("s.a[2].b", (FieldName("s"), FieldName("a"), Index(2), FieldName("b"))),
        ("s['x y']", (FieldName("s"), FieldName("x y", quoted=True))),
    ],
)
def test_path_has_its_steps_in_order(text: str, path: Path) -> None:
    assert path_of(value(text)) == path


def test_path_must_begin_with_a_name() -> None:
    with pytest.raises(SelectError):
        path_of(value("1 + 1"))


def test_long_chain_has_its_operands_in_order() -> None:
    parts = chain(condition(" AND ".join(f"a = {number}" for number in range(200))))
    assert [part.expression.this for part in parts] == [str(number) for number in range(200)]


def test_chain_ends_at_another_connector() -> None:
    assert len(chain(condition("a = 1 AND (b = 2 OR c = 3) AND d = 4"))) == 3


def test_long_chains_are_accepted_and_deep_nesting_is_rejected() -> None:
    check_depth(condition(" OR ".join("a = 1" for _ in range(500))))
    with pytest.raises(SelectError):
        check_depth(value("-(" * 40 + "1" + ")" * 40))


def test_missing_is_a_keyword_unless_quoted_or_a_field() -> None:
    words = [value(text) for text in ("missing", '"missing"', "s.missing")]
    assert [isinstance(word, exp.Column) and is_missing_keyword(word) for word in words] == [True, False, False]
