from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkRuntimeError

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    LakebedError,
    NoSuchCatalog,
    NoSuchTable,
    Unauthenticated,
    Unavailable,
)
from lakebed.pipeline.errors import explanation, failure_of

STACK = """An error occurred while calling o123.sql.
: java.lang.RuntimeException: Cannot commit rewrite because of a ValidationException or CommitFailedException.
\tat org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction.doExecute(RewriteDataFilesSparkAction.java:300)
Caused by: org.apache.iceberg.exceptions.{kind}: what happened, in its own words
\tat org.apache.iceberg.rest.ErrorHandlers.accept(ErrorHandlers.java:1)
\t... 20 more
"""


def raised(text: str) -> PySparkRuntimeError:
    error = PySparkRuntimeError("x")
    error._message = text
    return error


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("NotAuthorizedException", Unauthenticated),
        ("ForbiddenException", AccessDenied),
        ("NoSuchTableException", NoSuchTable),
        ("NoSuchWarehouseException", NoSuchCatalog),
        ("AlreadyExistsException", AlreadyExists),
        ("CommitFailedException", CommitConflict),
        ("BadRequestException", InvalidInput),
        ("ServiceFailureException", Unavailable),
    ],
)
def test_iceberg_errors_become_lakebed_errors(kind: str, expected: type[LakebedError]) -> None:
    made = failure_of(raised(STACK.replace("{kind}", kind)), "wh.ns.t")
    assert type(made) is expected
    assert str(made) == f"{kind}: what happened, in its own words. table=wh.ns.t"


def test_spark_errors_become_lakebed_errors() -> None:
    assert isinstance(failure_of(AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] no t"), "t"), NoSuchTable)
    assert isinstance(failure_of(IllegalArgumentException("wrong"), "t"), InvalidInput)


def test_other_errors_are_not_translated() -> None:
    assert failure_of(ZeroDivisionError(), "t") is None


def test_message_is_one_line_without_a_stack_trace() -> None:
    assert "\n" not in explanation(raised(STACK))
    assert explanation(raised("")) == "PySparkRuntimeError"
    assert (
        explanation(raised("An error occurred while calling o1.sql.\n: a.b.SomeError: alone\n\tat a.b"))
        == "SomeError: alone"
    )
