"""A folder of files in the layout of Hive: `country=de/day=2026-01-31/part-0.parquet`. Pure."""

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
"""How the layout writes a value that is none."""

TYPES: Final = ("int", "bigint", "date", "string", "boolean", "float", "double")
"""What a partition column can be."""

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LARGEST_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    """A file, and what its folders say of it."""

    path: str
    bytes: int
    values: tuple[str | None, ...]
    """One a partition column, in their order."""


@dataclass(frozen=True, slots=True)
class HiveLayout:
    """Files that belong together."""

    columns: tuple[str, ...]
    files: tuple[PartitionedFile, ...]
    hidden: int
    """How many files were passed over, because their name or that of a folder begins with `_` or `.`, or are empty."""


def read_layout(location: str, files: Iterable[ListedFile]) -> HiveLayout:
    """What a folder holds. Raises InvalidInput if its files are not all divided by the same columns."""
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
                "the files of a folder are divided by the same columns, in the same order."
                f" file={file.path} found={','.join(names) or 'none'} elsewhere={','.join(columns) or 'none'}",
                argument="source",
            )
        values = tuple(None if value == NULL else unquote(value) for _, _, value in pairs)
        laid_out.append(PartitionedFile(file.path, file.bytes, values))
    return HiveLayout(columns or (), tuple(laid_out), hidden)


def column_types(layout: HiveLayout, stated: Sequence[str] = ()) -> dict[str, str]:
    """The type of each partition column: as stated (`day date`), else what all its values can be.

    Raises InvalidInput for a column that is not in the layout, or a type that cannot be.
    """
    told = _read_stated(layout, stated)
    return {
        name: told.get(name) or _type_of([file.values[index] for file in layout.files])
        for index, name in enumerate(layout.columns)
    }


def _read_stated(layout: HiveLayout, stated: Sequence[str]) -> Mapping[str, str]:
    told: dict[str, str] = {}
    names: list[str] = []
    for words in stated:
        name, _, kind = words.strip().partition(" ")
        names.append(name)
        if kind.strip():
            told[name] = kind.strip().lower()
            if told[name] not in TYPES:
                raise InvalidInput(
                    f"a partition column is one of {', '.join(TYPES)}. found={words!r}", argument="partition-columns"
                )
    if names and names != list(layout.columns):
        raise InvalidInput(
            "partition-columns names the columns of the folder's layout, in their order."
            f" found={','.join(names)} layout={','.join(layout.columns) or 'none'}",
            argument="partition-columns",
        )
    return told


def _type_of(values: Sequence[str | None]) -> str:
    there = [value for value in values if value is not None]
    if there and all(_WHOLE.fullmatch(value) for value in there):
        return "int" if all(abs(int(value)) <= _LARGEST_INT for value in there) else "bigint"
    if there and all(_is_date(value) for value in there):
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
