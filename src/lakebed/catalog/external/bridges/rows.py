"""Statements of bridges, and how rows become values."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.core.errors import AlreadyExists
from lakebed.meta.seam import Row, Transaction

from .model import Bridge, decode_config, decode_state

_NAMES: Final = "namespace, name, revision, config, secrets, state, due_ms, created_ms, updated_ms"
_COLUMNS: Final = ", ".join(f"r.{name.strip()}" for name in _NAMES.split(","))

FIND: Final = f"SELECT {_COLUMNS} FROM bridges r WHERE r.namespace = ? AND r.name = ?"  # noqa: S608  # constants only
PUT: Final = (
    f"INSERT INTO bridges ({_NAMES}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (namespace, name) DO UPDATE SET revision = excluded.revision, config = excluded.config,"
    " secrets = excluded.secrets, state = excluded.state, due_ms = excluded.due_ms, updated_ms = excluded.updated_ms"
)
MOVE: Final = "UPDATE bridges SET namespace = ?, name = ? WHERE namespace = ? AND name = ?"
DELETE: Final = "DELETE FROM bridges WHERE namespace = ? AND name = ?"
SET_STATE: Final = "UPDATE bridges SET state = ?, due_ms = ? WHERE namespace = ? AND name = ? AND revision = ?"
CLAIM: Final = "UPDATE bridges SET due_ms = ? WHERE namespace = ? AND name = ? AND revision = ? AND due_ms = ?"
DUE: Final = (
    f"SELECT {_COLUMNS}, n.path, w.name FROM bridges r JOIN namespaces n ON n.id = r.namespace"  # noqa: S608
    " JOIN warehouses w ON w.id = n.warehouse WHERE r.due_ms <= ? ORDER BY r.due_ms LIMIT ?"
)


class BridgeKey(NamedTuple):
    """The primary key of a bridge: a table name in a namespace."""

    namespace_id: int
    name: str


async def move_bridge(tx: Transaction, source: BridgeKey, target: BridgeKey) -> None:
    """The step of a transaction that renames a table: its bridge, if it has one, gets the new name too.

    Raises AlreadyExists when another bridge waits for a table of that name: which of the two to keep is the user's
    decision. A sync that runs meanwhile finds no bridge under the old name, and records nothing.
    """
    if source == target or await tx.row(FIND, *source) is None:
        return
    if await tx.row(FIND, *target) is not None:
        raise AlreadyExists(
            f"both names have a bridge to an external catalog: remove one of them first. name={target.name}"
        )
    await tx.run(MOVE, *target, *source)


def bridge_from(row: Row) -> Bridge:
    """A bridge, from the first columns of a row."""
    return Bridge(
        namespace_id=row[0],
        name=row[1],
        revision=row[2],
        config=decode_config(row[3]),
        sealed=row[4],
        state=decode_state(row[5]),
        due_ms=row[6],
        created_ms=row[7],
        updated_ms=row[8],
    )
