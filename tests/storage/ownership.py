"""Ownership for other tests: the store gets its id at the first confirmation."""

from __future__ import annotations

from typing import Final

from lakebed.core.ids import DeploymentId
from lakebed.storage.ownership import DeploymentMarker, OwnedStore, StoreOwnership, claim_marker
from lakebed.storage.seam import ObjectStorage

DEPLOYMENT: Final = DeploymentId("a" * 26)


class ClaimedAtFirstUse:
    """The real check, on a store that is claimed by the deployment."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage
        self._ownership = StoreOwnership(storage, _find_id, "the store of a test")
        self._is_claimed = False

    async def confirm(self) -> OwnedStore:
        if not self._is_claimed:
            await claim_marker(self._storage, DeploymentMarker(DEPLOYMENT))
            self._is_claimed = True
        return await self._ownership.confirm()


async def _find_id() -> DeploymentId:
    return DEPLOYMENT
