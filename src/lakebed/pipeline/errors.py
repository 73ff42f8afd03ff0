"""Translates exceptions of Spark and Iceberg into Lakebed errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    LakebedError,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    NotSupported,
    Unauthenticated,
    Unavailable,
)

_MAX_QUOTED: Final = 500

_BY_TEXT: Final[Mapping[str, type[LakebedError]]] = {
    "org.apache.iceberg.exceptions.NotAuthorizedException": Unauthenticated,
    "org.apache.iceberg.exceptions.ForbiddenException": AccessDenied,
    "(Service: S3, Status Code: 403": AccessDenied,
    "NoSuchWarehouseException": NoSuchCatalog,
    "org.apache.iceberg.exceptions.NoSuchTableException": NoSuchTable,
    "TABLE_OR_VIEW_NOT_FOUND": NoSuchTable,
    "org.apache.iceberg.exceptions.NoSuchNamespaceException": NoSuchNamespace,
    "SCHEMA_NOT_FOUND": NoSuchNamespace,
    "org.apache.iceberg.exceptions.AlreadyExistsException": AlreadyExists,
    "TABLE_OR_VIEW_ALREADY_EXISTS": AlreadyExists,
    "org.apache.iceberg.exceptions.CommitFailedException": CommitConflict,
    "PARSE_SYNTAX_ERROR": InvalidInput,
    "org.apache.iceberg.exceptions.ValidationException: Cannot find field": InvalidInput,
    "UNRESOLVED_COLUMN": InvalidInput,
    "org.apache.iceberg.exceptions.BadRequestException": InvalidInput,
    "java.lang.IllegalArgumentException": InvalidInput,
    "java.lang.UnsupportedOperationException": NotSupported,
    "java.net.ConnectException": Unavailable,
}
"""Text of a Java exception and its error. The first match decides, so the most specific come first."""

_FRAME: Final = re.compile(r"^\s*(at |\.\.\. \d+ more)")
_CAUSE: Final = re.compile(r"^(?:: |Caused by: )?(?:[\w.$]+\.)?(\w*(?:Exception|Error)): (.*)$")


def failure_of(error: BaseException, table: str) -> LakebedError | None:
    """The Lakebed error for an exception of Spark; None for other exceptions."""
    if not is_spark_error(error):
        return None
    text = str(error)
    kind = next((cls for part, cls in _BY_TEXT.items() if part in text), None)
    if kind is None and type(error).__name__ in ("IllegalArgumentException", "ParseException"):
        kind = InvalidInput
    return (kind or Unavailable)(f"{explanation(error)}. table={table}")


def is_spark_error(error: BaseException) -> bool:
    """Whether Spark or its JVM raised this."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def explanation(error: BaseException) -> str:
    """One line: the message of the innermost cause, without the Java stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not _FRAME.match(line)]
    causes = [found for line in lines if (found := _CAUSE.match(line))]
    message = f"{causes[-1][1]}: {causes[-1][2]}" if causes else (lines[0] if lines else type(error).__name__)
    return " ".join(message.split()).rstrip(".")[:_MAX_QUOTED]
