"""SQL statements of restricted copies, and their decoding. Only this module knows the columns."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.meta.seam import Reader, Row

_COLUMNS: Final = "id, source, snapshot, restriction, recipe, task, used_ms"

BY_ID: Final = f"SELECT {_COLUMNS} FROM restricted_copies WHERE id = ?"  # noqa: S608  # constants only, here and below
BY_SOURCE: Final = (
    f"SELECT {_COLUMNS} FROM restricted_copies"  # noqa: S608
    " WHERE source = ? AND snapshot = ? AND restriction = ? AND recipe = ?"
)
COUNT: Final = "SELECT count(*) FROM restricted_copies WHERE source = ? AND restriction = ?"
UNNEEDED: Final = (
    f"SELECT {_COLUMNS} FROM restricted_copies c WHERE used_ms < ?"  # noqa: S608
    " OR NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = c.source) ORDER BY used_ms LIMIT ?"
)
"""Copies last used before a time, and copies of removed tables."""
ORPHANS: Final = (
    "SELECT c.id, c.source, c.snapshot, c.restriction, c.recipe, c.task, c.used_ms FROM restricted_copies c"
    " JOIN entries own ON own.id = c.id WHERE own.namespace = ?"
    " AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = c.source)"
)
"""Copies in a namespace, of removed tables."""
INSERT: Final = (
    "INSERT INTO restricted_copies (id, source, snapshot, restriction, recipe, task, created_ms, used_ms)"
    " VALUES (?, ?, ?, ?, ?, NULL, ?, ?) ON CONFLICT (source, snapshot, restriction, recipe) DO NOTHING RETURNING id"
)
SET_TASK: Final = "UPDATE restricted_copies SET task = ? WHERE id = ?"
SET_USED: Final = "UPDATE restricted_copies SET used_ms = ? WHERE id = ? AND used_ms < ?"


class CopyRow(NamedTuple):
    """The row of a copy."""

    id: str
    """The entry id of the copy, which is a table."""
    source: str
    """The entry id of the original table."""
    snapshot: int
    restriction: str
    recipe: str
    """The digest of the copy's definition."""
    task: int | None
    used_ms: int


async def find_copy(reader: Reader, copy_id: str) -> CopyRow | None:
    """The copy with an id, if it exists."""
    return copy_from(await reader.row(BY_ID, copy_id))


def copy_from(row: Row | None) -> CopyRow | None:
    """Decode a row."""
    return None if row is None else CopyRow(*row)
