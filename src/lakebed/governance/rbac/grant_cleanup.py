"""Invalidates cached grants when their securable is dropped. The metadata store deletes the grants themselves.

Call it in the transaction of the drop, before the drop. The change number moves only if there are grants, so that drops
do not contend with changes of roles. Namespace paths can be reused, and clients can choose table ids: without
invalidation, cached grants would apply to the next securable of that name or id.
"""

from __future__ import annotations

from lakebed.meta.seam import Transaction

from . import rows
from .securables import stream_key


async def invalidate_catalog_grants(tx: Transaction, catalog: int) -> None:
    """For the drop of a catalog, with its roles and their grants."""
    await tx.run(rows.INVALIDATE_CATALOG, catalog)


async def invalidate_namespace_grants(tx: Transaction, namespace: int) -> None:
    """For the drop of a namespace."""
    await tx.run(rows.INVALIDATE_NAMESPACE, namespace)


async def invalidate_entry_grants(tx: Transaction, entry: str) -> None:
    """For the final drop of a table or view, which cannot be restored."""
    await tx.run(rows.INVALIDATE_ENTRY, entry)


async def invalidate_policy_grants(tx: Transaction, policy: int) -> None:
    """For the drop of a policy."""
    await tx.run(rows.INVALIDATE_POLICY, policy)


async def remove_stream_grants(tx: Transaction, database: str, table: str = "") -> None:
    """Delete the grants on a dropped stream table, or on a dropped stream database and its tables."""
    key = stream_key(database, table)
    if table:
        removed = await tx.run(rows.DELETE_STREAM_GRANTS, key)
    else:
        # All keys that continue with a dot: `/` is the character after it.
        removed = await tx.run(rows.DELETE_DATABASE_GRANTS, key, f"{key}.", f"{key}/")
    if removed:
        await tx.run(rows.INVALIDATE_GRANTS)
