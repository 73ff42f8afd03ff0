"""Hive partition layout of a folder: `country=de/day=2026-01-31/part-0.parquet`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import unquote

from lakebed.core.errors import InvalidInput

from .listing import ListedFile, key_of

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder name of a null partition value."""

TYPES: Final = ("int", "bigint", "date", "string", "boolean", "float", "double")
"""Types of partition columns."""

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LARGEST_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    """A file and its partition values."""

    path: str
    bytes: int
    values: tuple[str | None, ...]
    """One per partition column, in order."""


@dataclass(frozen=True, slots=True)
class HiveLayout:
    """Partition columns and files of a folder."""

    columns: tuple[str, ...]
    files: tuple[PartitionedFile, ...]
    hidden: int
    """Number of ignored files: empty ones, and those with `_` or `.` at the start of their name or of a folder's."""


def read_layout(location: str, files: Iterable[ListedFile]) -> HiveLayout:
    """Read the layout. Raises InvalidInput if files have different partition columns."""
    start = len(key_of(location).rstrip("/")) + 1
    laid_out: list[PartitionedFile] = []
    columns: tuple[str, ...] | None = None
    hidden = 0
    for file in files:
        *folders, name = key_of(file.path)[start:].split("/")
        if any(part.startswith(("_", ".")) and "=" not in part for part in (*folders, name)) or not file.bytes:
            hidden += 1
            continue
        pairs = [part.partition("=") for part in folders if "=" in part]
        names = tuple(unquote(name) for name, _, _ in pairs)
        if columns is None:
            columns = names
        elif names != columns:
            raise InvalidInput(
                "files of a folder need the same partition columns in the same order."
                f" file={file.path} found={','.join(names) or 'none'} expected={','.join(columns) or 'none'}",
                argument="source",
            )
        values = tuple(None if value == NULL else unquote(value) for _, _, value in pairs)
        laid_out.append(PartitionedFile(file.path, file.bytes, values))
    return HiveLayout(columns or (), tuple(laid_out), hidden)


def column_types(layout: HiveLayout, stated: Sequence[str] = ()) -> dict[str, str]:
    """The type of each partition column: as stated (`day date`), otherwise inferred from its values.

    Raises InvalidInput for an unknown column or type.
    """
    given = _read_stated(layout, stated)
    return {
        name: given.get(name) or _type_of([file.values[index] for file in layout.files])
        for index, name in enumerate(layout.columns)
    }


def _read_stated(layout: HiveLayout, stated: Sequence[str]) -> Mapping[str, str]:
    given: dict[str, str] = {}
    names: list[str] = []
    for words in stated:
        name, _, kind = words.strip().partition(" ")
        names.append(name)
        if kind.strip():
            given[name] = kind.strip().lower()
            if given[name] not in TYPES:
                raise InvalidInput(
                    f"unknown type of a partition column. found={words!r} expected={', '.join(TYPES)}",
                    argument="partition-columns",
                )
    if names and names != list(layout.columns):
        raise InvalidInput(
            "partition-columns must list the partition columns of the folder, in order."
            f" found={','.join(names)} layout={','.join(layout.columns) or 'none'}",
            argument="partition-columns",
        )
    return given


def _type_of(values: Sequence[str | None]) -> str:
    present = [value for value in values if value is not None]
    if present and all(_WHOLE.fullmatch(value) for value in present):
        return "int" if all(abs(int(value)) <= _LARGEST_INT for value in present) else "bigint"
    if present and all(_is_date(value) for value in present):
        return "date"
    return "string"


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
