"""The deployment id in the metadata store: generated once, shared by every server of that store."""

from __future__ import annotations

from typing import Final

from lakebed.core.ids import DeploymentId, new_deployment_id

from .seam import MetaStore, Reader, Transaction

_FIND: Final = "SELECT id FROM deployment WHERE singleton = 1"
_RECORD: Final = "INSERT INTO deployment (singleton, id) VALUES (1, ?) ON CONFLICT (singleton) DO NOTHING"


async def find_deployment_id(reader: Reader) -> DeploymentId | None:
    """Return the recorded id, or None for a metadata store that has none yet."""
    row = await reader.row(_FIND)
    return None if row is None else DeploymentId(row[0])


async def establish_deployment_id(store: MetaStore) -> DeploymentId:
    """Return the recorded id, recording a new one first if there is none.

    Servers that start together on an empty store get the same id.
    """
    found = await find_deployment_id(store)
    if found is not None:
        return found

    async def work(tx: Transaction) -> DeploymentId | None:
        await tx.run(_RECORD, new_deployment_id())
        return await find_deployment_id(tx)

    recorded = await store.transact(work)
    if recorded is None:
        raise RuntimeError("the inserted deployment id is missing")
    return recorded
