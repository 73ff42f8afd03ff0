"""What databases, tables, columns and partitions can be called."""

from __future__ import annotations

import re
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["DEFAULT_DATABASE", "RESERVED_COLUMNS", "check_database_name", "check_partition_value", "check_table_name"]

DEFAULT_DATABASE: Final = "fluss"
"""Always there."""

RESERVED_COLUMNS: Final = frozenset(
    {"__offset", "__timestamp", "__bucket", "_change_type", "_log_offset", "_commit_timestamp"}
)
"""Columns that readers of a table see beside its own."""

MAX_NAME_LENGTH: Final = 200

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_RESERVED_PREFIX: Final = "__"


def check_database_name(name: str) -> None:
    """Raise INVALID_DATABASE unless a database can be called so."""
    if fault := _fault(name):
        raise FlussError(
            ErrorCode.INVALID_DATABASE, f"invalid name of a database: {fault}. name={name[:MAX_NAME_LENGTH]}"
        )


def check_table_name(name: str) -> None:
    """Raise INVALID_TABLE unless a table can be called so."""
    if fault := _fault(name):
        raise FlussError(ErrorCode.INVALID_TABLE, f"invalid name of a table: {fault}. name={name[:MAX_NAME_LENGTH]}")


def check_partition_value(value: str) -> None:
    """Raise PARTITION_SPEC_INVALID unless a partition can have this value in its name."""
    if fault := _fault(value):
        raise FlussError(
            ErrorCode.PARTITION_SPEC_INVALID, f"invalid value of a partition: {fault}. value={value[:MAX_NAME_LENGTH]}"
        )


def _fault(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"it is longer than {MAX_NAME_LENGTH}"
    if _NAME.fullmatch(name) is None:
        return "it has other characters than ASCII letters, digits, '_' and '-'"
    return f"'{_RESERVED_PREFIX}' is reserved" if name.startswith(_RESERVED_PREFIX) else ""
