"""Valid names of databases, tables, columns and partitions."""

from __future__ import annotations

import re
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["DEFAULT_DATABASE", "RESERVED_COLUMNS", "check_database_name", "check_partition_value", "check_table_name"]

DEFAULT_DATABASE: Final = "fluss"
"""The database that always exists."""

RESERVED_COLUMNS: Final = frozenset(
    {"__offset", "__timestamp", "__bucket", "_change_type", "_log_offset", "_commit_timestamp"}
)
"""Columns that readers of a table see beside its own."""

MAX_NAME_LENGTH: Final = 200

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_RESERVED_PREFIX: Final = "__"


def check_database_name(name: str) -> None:
    """Raise INVALID_DATABASE unless the name is valid."""
    if fault := _fault(name):
        raise FlussError(ErrorCode.INVALID_DATABASE, f"invalid database name: {fault}. name={name[:MAX_NAME_LENGTH]}")


def check_table_name(name: str) -> None:
    """Raise INVALID_TABLE unless the name is valid."""
    if fault := _fault(name):
        raise FlussError(ErrorCode.INVALID_TABLE, f"invalid table name: {fault}. name={name[:MAX_NAME_LENGTH]}")


def check_partition_value(value: str) -> None:
    """Raise PARTITION_SPEC_INVALID unless the value is valid in a partition name."""
    if fault := _fault(value):
        raise FlussError(
            ErrorCode.PARTITION_SPEC_INVALID, f"invalid partition value: {fault}. value={value[:MAX_NAME_LENGTH]}"
        )


def _fault(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"it is longer than {MAX_NAME_LENGTH}"
    if _NAME.fullmatch(name) is None:
        return "only ASCII letters, digits, '_' and '-' are allowed"
    return f"'{_RESERVED_PREFIX}' is reserved" if name.startswith(_RESERVED_PREFIX) else ""
