"""A bridge goes along when its table gets another name."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.core.errors import AlreadyExists
from lakebed.meta.seam import Transaction

from . import rows


class Place(NamedTuple):
    """A name in a namespace."""

    namespace_id: int
    name: str


async def move_bridge(tx: Transaction, source: Place, target: Place) -> None:
    """The step of a transaction that renames a table: its bridge, if it has one, gets the new name too.

    Raises AlreadyExists when another bridge waits for a table of that name: which of the two is meant is not for us to
    say. Who follows the bridge meanwhile finds it gone from the old name, and records nothing.
    """
    if source == target or await tx.row(rows.FIND, *source) is None:
        return
    if await tx.row(rows.FIND, *target) is not None:
        raise AlreadyExists(
            f"both names have a bridge to another catalog: remove one of them first. name={target.name}"
        )
    await tx.run(rows.MOVE, *target, *source)
