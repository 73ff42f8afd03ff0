"""Checks that an object store belongs to a deployment: one object in it contains the deployment's id.

Metadata store and object store are configured separately, so either can belong to another deployment: a forgotten
`meta.url`, a disk that is not mounted, a bucket shared by staging and production. To a server with the wrong metadata
store, all objects look like orphans. So orphans are deleted only if both carry the same id at that moment (ADR 40).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from lakebed.core.errors import AlreadyExists, Corrupted, NotFound, NotSupported, StoreMismatch
from lakebed.core.ids import DeploymentId

from .seam import Key, ObjectHead, ObjectStorage

__all__ = [
    "MARKER_KEY",
    "DeploymentMarker",
    "OwnedStore",
    "Ownership",
    "StoreOwnership",
    "claim_marker",
    "delete_listed",
    "deletion_fields",
    "read_marker",
]

MARKER_KEY: Final = Key("deployment.json")
FIRST_KEYS: Final = 5
"""Number of deleted keys to log."""

BATCH: Final = 500
"""Number of objects deleted per ownership check."""


class DeploymentMarker(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of the object `MARKER_KEY`."""

    deployment: DeploymentId
    attached: bool = False
    """Whether the store already contained objects when it was attached. Those may belong to another deployment."""


@dataclass(frozen=True, slots=True)
class OwnedStore:
    """A store that belongs to this deployment."""

    since_ms: int = 0
    """When the store was attached, by the store's clock; 0 if it was claimed while empty."""

    def may_delete(self, head: ObjectHead) -> bool:
        """Whether an unreferenced object certainly belongs to this deployment."""
        return head.modified_ms >= self.since_ms

    def deletable(self, heads: Iterable[ObjectHead]) -> list[ObjectHead]:
        """The `heads` that `may_delete` allows."""
        return [head for head in heads if self.may_delete(head)]


class Ownership(Protocol):
    """Checks the ownership of an object store before deletions."""

    async def confirm(self) -> OwnedStore:
        """Return if store and metadata belong together. Raises StoreMismatch, Unavailable."""
        ...


class StoreOwnership:
    """Compares the ids in the object store and the metadata store on every call."""

    def __init__(
        self, storage: ObjectStorage, find_id: Callable[[], Awaitable[DeploymentId | None]], place: str
    ) -> None:
        """`find_id` reads the id in the metadata store; `place` names the object store in errors."""
        self._storage = storage
        self._find_id = find_id
        self._place = place

    async def confirm(self) -> OwnedStore:
        """Return if both ids are equal. Two reads. Raises StoreMismatch, Unavailable."""
        marker, own = await read_marker(self._storage), await self._find_id()
        if marker is None:
            raise StoreMismatch(
                "the object store has no deployment id; it may not be mounted, or is another one."
                f" store={self._place} metadata_deployment={own}"
            )
        if marker.deployment != own:
            raise StoreMismatch(
                "the object store belongs to another deployment."
                f" store={self._place} store_deployment={marker.deployment} metadata_deployment={own}"
            )
        if not marker.attached:
            return OwnedStore()
        return OwnedStore((await self._storage.head(MARKER_KEY)).modified_ms)


async def read_marker(storage: ObjectStorage) -> DeploymentMarker | None:
    """The store's marker, if it has one. Raises Corrupted, Unavailable."""
    try:
        document = await storage.get(MARKER_KEY)
    except NotFound:
        return None
    try:
        return msgspec.json.decode(document, type=DeploymentMarker)
    except msgspec.MsgspecError as error:
        raise Corrupted(
            f"the deployment id in the object store cannot be read. key={MARKER_KEY}. If another application wrote that"
            " object, use another bucket or prefix (storage.s3.bucket, storage.s3.prefix). If it is damaged, delete it:"
            " the next start treats the store as one without an id"
        ) from error


async def claim_marker(
    storage: ObjectStorage, marker: DeploymentMarker, *, replacing: bool = False
) -> DeploymentMarker:
    """Write the marker, unless another server was first; the marker after that.

    With `replacing`, an existing marker is replaced.
    """
    document = msgspec.json.encode(marker)
    if replacing:
        await storage.put(MARKER_KEY, document)
    else:
        try:
            await storage.put_if_absent(MARKER_KEY, document)
        except AlreadyExists:
            pass
        except NotSupported:
            # A store without conditional writes: servers that start together all write, and read back the result.
            if await read_marker(storage) is None:
                await storage.put(MARKER_KEY, document)
    found = await read_marker(storage)
    if found is None:
        raise Corrupted(f"the deployment id was written to the object store but is missing. key={MARKER_KEY}")
    return found


async def delete_listed(
    storage: ObjectStorage, ownership: Ownership, found: Sequence[ObjectHead], log: logging.Logger, event: str
) -> int:
    """Delete unreferenced objects from a listing; how many. Raises StoreMismatch, Unavailable.

    Ownership is confirmed before each batch and selects the objects to delete. Each batch is logged as `event`.
    """
    deleted = 0
    for start in range(0, len(found), BATCH):
        owned = (await ownership.confirm()).deletable(found[start : start + BATCH])
        if owned:
            await storage.delete_many([head.key for head in owned])
            log.info(event, extra=deletion_fields(owned))
            deleted += len(owned)
    return deleted


def deletion_fields(heads: Sequence[ObjectHead]) -> dict[str, object]:
    """Log fields for deleted objects: count, bytes, first keys."""
    return {
        "count": len(heads),
        "bytes": sum(head.size for head in heads),
        "first_keys": [str(head.key) for head in heads[:FIRST_KEYS]],
    }
