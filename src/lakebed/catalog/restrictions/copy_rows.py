"""Statements of the copies, and how rows become values. The only module of this package that knows columns."""

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
"""Those that nobody has used since, and those of tables that are gone for good."""
ORPHANS: Final = (
    "SELECT c.id, c.source, c.snapshot, c.restriction, c.recipe, c.task, c.used_ms FROM restricted_copies c"
    " JOIN entries own ON own.id = c.id WHERE own.namespace = ?"
    " AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = c.source)"
)
"""Copies in a namespace, of tables that are gone for good."""
INSERT: Final = (
    "INSERT INTO restricted_copies (id, source, snapshot, restriction, recipe, task, created_ms, used_ms)"
    " VALUES (?, ?, ?, ?, ?, NULL, ?, ?) ON CONFLICT (source, snapshot, restriction, recipe) DO NOTHING RETURNING id"
)
SET_TASK: Final = "UPDATE restricted_copies SET task = ? WHERE id = ?"
SET_USED: Final = "UPDATE restricted_copies SET used_ms = ? WHERE id = ? AND used_ms < ?"


class CopyRow(NamedTuple):
    """A copy, as its row has it."""

    id: str
    """Of the copy itself, which is a table."""
    source: str
    """Of the table that it is a copy of."""
    snapshot: int
    restriction: str
    recipe: str
    task: int | None
    used_ms: int


async def find_copy(reader: Reader, copy_id: str) -> CopyRow | None:
    """The copy of that id; None if there is none."""
    return copy_from(await reader.row(BY_ID, copy_id))


def copy_from(row: Row | None) -> CopyRow | None:
    """A copy from its row, if there is one."""
    return None if row is None else CopyRow(*row)
