from __future__ import annotations

import pytest

from lakebed.core.errors import SelectError
from lakebed.select.dialect.paths import FieldName, Index, PathWildcard
from lakebed.select.dialect.statement import read_statement


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("", "ParseExpectedKeyword"),
        ("   ", "ParseExpectedKeyword"),
        ("DELETE FROM S3Object", "ParseExpectedKeyword"),
        ("WITH a AS (SELECT 1) SELECT * FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT", "ParseSelectMissingFrom"),
        ("SELECT *", "ParseSelectMissingFrom"),
        ("SELECT FROM S3Object", "ParseEmptySelect"),
        ("SELECT * FROM", "ParseExpectedMember"),
        ("SELECT * FROM other", "DataSourcePathUnsupported"),
        ("SELECT * FROM (SELECT * FROM S3Object)", "UnsupportedSqlStructure"),
        ("SELECT *, a FROM S3Object", "ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT a[*] FROM S3Object", "ParseInvalidContextForWildcardInSelectList"),
        ("SELECT * FROM S3Object[a]", "ParseInvalidPathComponent"),
        ("SELECT * FROM S3Object[1", "ParseInvalidPathComponent"),
        ("SELECT * FROM S3Object a, S3Object b", "MultipleDataSourcesUnsupported"),
        ("SELECT * FROM S3Object a JOIN S3Object b ON a.x = b.x", "MultipleDataSourcesUnsupported"),
        ("SELECT DISTINCT ON (a) a FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT a FROM S3Object HAVING a > 1", "UnsupportedSqlStructure"),
        ("SELECT a FROM S3Object WHERE ROW_NUMBER() OVER () > 1", "UnsupportedSqlStructure"),
        ("SELECT SUM(a) OVER w FROM S3Object WINDOW w AS (ORDER BY a)", "UnsupportedSqlStructure"),
        ("SELECT a FROM S3Object LIMIT 1 OFFSET 2", "UnsupportedSqlStructure"),
        ("SELECT a FROM S3Object UNION SELECT a FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT a FROM S3Object; SELECT a FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT a FROM S3Object LIMIT -1", "EvaluatorNegativeLimit"),
        ("SELECT a FROM S3Object LIMIT 'x'", "ParseExpectedNumber"),
        ("SELECT a FROM S3Object LIMIT 1.5", "ParseExpectedNumber"),
        ("SELECT a FROM S3Object WHERE b = 'x", "LexerInvalidLiteral"),
        ("SELECT a ? FROM S3Object", "LexerInvalidChar"),
        ("SELECT CAST a AS INT FROM S3Object", "ParseExpectedLeftParenAfterCast"),
        ("SELECT CASE END FROM S3Object", "ParseExpectedWhenClause"),
        ("SELECT a FROM S3Object WHERE", "ParseExpectedExpression"),
        ("SELECT a FROM S3Object WHERE COUNT(*) > 1", "UnsupportedSqlStructure"),
        ("SELECT (a FROM S3Object", "ParseExpectedRightParenBuiltinFunctionCall"),
        ("SELECT " + "(" * 300 + "a" + ")" * 300 + " FROM S3Object", "MaxOperatorsExceeded"),
        ("SELECT '" + "x" * 262144 + "' FROM S3Object", "ExpressionTooLong"),
    ],
)
def test_errors_have_their_s3_code(expression: str, code: str) -> None:
    with pytest.raises(SelectError) as raised:
        read_statement(expression)
    assert raised.value.code == code


def test_statement_is_parsed() -> None:
    statement = read_statement("SELECT s.a AS x, b y FROM S3Object AS s WHERE a > 1 LIMIT 7;")
    assert [projection.alias for projection in statement.projections] == ["x", "y"]
    assert statement.alias == FieldName("s")
    assert statement.where is not None
    assert statement.limit == 7
    assert not statement.aggregates


@pytest.mark.parametrize("star", ["*", "s.*"])
def test_star_has_no_projections(star: str) -> None:
    assert read_statement(f"SELECT {star} FROM s3OBJECT s").projections == ()


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("S3Object", ()),
        ("S3Object[*]", ()),
        ("S3Object[*][*]", (PathWildcard(),)),
        ("S3Object[*].a.b", (FieldName("a"), FieldName("b"))),
        ("S3Object[*].a[*].b", (FieldName("a"), PathWildcard(), FieldName("b"))),
        ("S3Object[*].a[2]['The Name']", (FieldName("a"), Index(2), FieldName("The Name", quoted=True))),
        ('S3Object[*]."A".*', (FieldName("A", quoted=True), PathWildcard(fields=True))),
        ("S3Object.path", (FieldName("path"),)),
    ],
)
def test_paths_after_from_are_parsed(source: str, path: tuple[object, ...]) -> None:
    assert read_statement(f"SELECT * FROM {source} x").source == path


def test_aggregates_are_found_in_nested_expressions() -> None:
    assert read_statement("SELECT 1 + MIN(CAST(_1 AS INT)) FROM S3Object").aggregates
