"""What grants are on goes: the store takes them along, and what was compiled of them is made anew.

To be called in the transaction that removes the thing, before it does. The number moves only where there are grants, so
that dropping tables does not keep those waiting who change roles. Names of namespaces are given again, and ids of
tables may be chosen by who makes them: without this, what has the name or the id next would be thought to carry what
the last one did.
"""

from __future__ import annotations

from lakebed.meta.seam import Transaction

from . import rows
from .securables import stream_key


async def invalidate_catalog_grants(tx: Transaction, catalog: int) -> None:
    """A catalog goes, with its roles and all that they hold."""
    await tx.run(rows.INVALIDATE_CATALOG, catalog)


async def invalidate_namespace_grants(tx: Transaction, namespace: int) -> None:
    """A namespace goes."""
    await tx.run(rows.INVALIDATE_NAMESPACE, namespace)


async def invalidate_entry_grants(tx: Transaction, entry: str) -> None:
    """A table or view goes, and cannot be restored."""
    await tx.run(rows.INVALIDATE_ENTRY, entry)


async def invalidate_policy_grants(tx: Transaction, policy: int) -> None:
    """A policy goes."""
    await tx.run(rows.INVALIDATE_POLICY, policy)


async def remove_stream_grants(tx: Transaction, database: str, table: str = "") -> None:
    """A stream table goes, or a database of streams with what is in it; and what was granted on the name."""
    key = stream_key(database, table)
    if table:
        gone = await tx.run(rows.DELETE_STREAM_GRANTS, key)
    else:
        # All keys that go on with a dot, and no others: the next character after it ends them.
        gone = await tx.run(rows.DELETE_DATABASE_GRANTS, key, f"{key}.", f"{key}/")
    if gone:
        await tx.run(rows.INVALIDATE_GRANTS)
