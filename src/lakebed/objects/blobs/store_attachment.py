"""Decides at start whether the object store belongs to the metadata store, and attaches one to the other (ADR 40).

The rule: both carry the same deployment id, or neither holds anything that could be somebody else's. What cannot be
proved is refused, with both ids and the ways out, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakebed.core.errors import NotFound, StateConflict, StoreMismatch
from lakebed.core.ids import BlobId, DeploymentId
from lakebed.meta.deployment import establish_deployment_id, find_deployment_id
from lakebed.meta.seam import MetaStore
from lakebed.storage.ownership import DeploymentMarker, StoreOwnership, claim_marker, read_marker
from lakebed.storage.seam import Key, ObjectStorage

from .. import rows
from .ingest import BLOBS_PREFIX, blob_key

__all__ = [
    "STREAM_SERVERS_PREFIX",
    "ReferenceSample",
    "StoreAttachment",
    "StoreEvidence",
    "StoreState",
    "StoreVerdict",
    "decide",
]

STREAMS_PREFIX: Final = "streams/"
STREAM_SERVERS_PREFIX: Final = f"{STREAMS_PREFIX}servers/"
"""Objects that stream servers leave at their start, and that belong to no table."""

_SAMPLES: Final = 16

SampleKeys = Callable[[int], Awaitable[Sequence[Key]]]
"""Keys in the object store that the metadata refers to, at most so many."""


class ReferenceSample(Enum):
    """What a sample of the metadata's references to the object store shows."""

    NONE = "none"
    """The metadata refers to no object."""
    FOUND = "found"
    """The store has one that the metadata refers to: random ids are not the same by chance."""
    MISSING = "missing"
    """The metadata refers to objects, and the store has none of those that were looked for."""


@dataclass(frozen=True, slots=True)
class StoreEvidence:
    """What is known of a metadata store and an object store before anything is written."""

    metadata_deployment: DeploymentId
    store_deployment: DeploymentId | None
    store_is_empty: bool
    references: ReferenceSample


class StoreVerdict(Enum):
    """What follows from the evidence."""

    BELONGS = "belongs"
    CLAIM = "claim"
    """First start: both are empty, and the store gets the id."""
    ADOPT = "adopt"
    """The store was written before stores carried ids, and is proved to be this deployment's."""
    FOREIGN = "foreign"
    """The store carries another id."""
    UNKNOWN_OBJECTS = "unknown objects"
    """The store has no id and holds objects, of which the metadata knows none."""
    OBJECTS_MISSING = "objects missing"
    """The store is empty, and the metadata refers to objects."""


def decide(evidence: StoreEvidence) -> StoreVerdict:
    """Whether the stores belong together."""
    if evidence.store_deployment is not None:
        same = evidence.store_deployment == evidence.metadata_deployment
        return StoreVerdict.BELONGS if same else StoreVerdict.FOREIGN
    if evidence.store_is_empty:
        return StoreVerdict.CLAIM if evidence.references is ReferenceSample.NONE else StoreVerdict.OBJECTS_MISSING
    return StoreVerdict.ADOPT if evidence.references is ReferenceSample.FOUND else StoreVerdict.UNKNOWN_OBJECTS


@dataclass(frozen=True, slots=True)
class StoreState:
    """The evidence, and what was decided of it."""

    evidence: StoreEvidence
    decision: StoreVerdict


class StoreAttachment:
    """An object store and the metadata store that it is to belong to."""

    def __init__(
        self,
        meta: MetaStore,
        storage: ObjectStorage,
        place: str,
        *,
        sample_streams: SampleKeys | None = None,
        before_attaching: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`place` names the object store in errors; `sample_streams` finds keys of stream tables.

        `before_attaching` drops what the metadata says of servers on the former store.
        """
        self._before_attaching = before_attaching
        self._meta = meta
        self._storage = storage
        self._place = place
        self._sample_streams = sample_streams

    async def confirm_at_start(self) -> StoreOwnership:
        """Check that the stores belong together; at the first start, make them. Raises StoreMismatch, Unavailable.

        One read of the object store, unless it has no id.
        """
        own, marker = await establish_deployment_id(self._meta), await read_marker(self._storage)
        if marker is not None:
            if marker.deployment != own:
                raise self._refusal(StoreVerdict.FOREIGN, own, marker.deployment)
            return self.ownership()
        state = await self.inspect()
        if state.decision in (StoreVerdict.CLAIM, StoreVerdict.ADOPT):
            evidence = state.evidence
            marker = DeploymentMarker(evidence.metadata_deployment, attached=state.decision is StoreVerdict.ADOPT)
            found = await claim_marker(self._storage, marker)
            if found.deployment != evidence.metadata_deployment:
                raise self._refusal(StoreVerdict.FOREIGN, evidence.metadata_deployment, found.deployment)
        elif state.decision is not StoreVerdict.BELONGS:
            raise self._refusal(state.decision, state.evidence.metadata_deployment, state.evidence.store_deployment)
        return self.ownership()

    def ownership(self) -> StoreOwnership:
        """The check that precedes every deletion."""
        return StoreOwnership(self._storage, lambda: find_deployment_id(self._meta), self._place)

    async def inspect(self) -> StoreState:
        """What the stores say of each other. The metadata store gets an id if it has none; nothing else is written."""
        own = await establish_deployment_id(self._meta)
        evidence = await self._look(own)
        if evidence.store_deployment is None and not evidence.store_is_empty:
            # Another server may have written id and objects between the two looks.
            marker = await read_marker(self._storage)
            if marker is not None:
                evidence = StoreEvidence(own, marker.deployment, store_is_empty=False, references=evidence.references)
        return StoreState(evidence, decide(evidence))

    async def attach(self, *, replacing: DeploymentId | None, accept_loss: bool) -> StoreState:
        """Make the store this deployment's by order of an operator; the state before.

        `replacing` repeats the id that the store carries. `accept_loss` confirms that objects the metadata refers to
        are not in the store. Objects that are in the store and unknown to the metadata are kept for good.
        Raises StateConflict if the order does not fit what is found.
        """
        state = await self.inspect()
        evidence = state.evidence
        if state.decision is StoreVerdict.BELONGS:
            return state
        if evidence.store_deployment != replacing:
            raise StateConflict(
                "the object store does not carry the id that is to be replaced."
                f" store={self._place} expected={replacing} found={evidence.store_deployment}"
            )
        if evidence.references is ReferenceSample.MISSING and not accept_loss:
            raise StateConflict(
                "the metadata refers to objects that this store does not have; reads of them would fail."
                f" store={self._place} metadata_deployment={evidence.metadata_deployment}"
            )
        if evidence.references is not ReferenceSample.FOUND and await self._has_stream_tables():
            # Logs are found by the names of their tables: those of another deployment would be taken for our own.
            raise StateConflict(
                "the store holds stream tables of another deployment; move them away, or use another prefix."
                f" store={self._place} prefix={STREAMS_PREFIX}"
            )
        if self._before_attaching is not None:
            await self._before_attaching()
        marker = DeploymentMarker(evidence.metadata_deployment, attached=not evidence.store_is_empty)
        await claim_marker(self._storage, marker, replacing=True)
        return state

    async def _look(self, own: DeploymentId) -> StoreEvidence:
        marker = await read_marker(self._storage)
        is_empty = not (await self._has_any(BLOBS_PREFIX) or await self._has_stream_tables())
        return StoreEvidence(own, None if marker is None else marker.deployment, is_empty, await self._references())

    async def _has_any(self, prefix: str, *, but: str | None = None) -> bool:
        """Whether the store has an object below `prefix`, and not below `but`."""
        async for head in self._storage.list_prefix(prefix):
            if but is None or not head.key.startswith(but):
                return True
        return False

    async def _has_stream_tables(self) -> bool:
        return await self._has_any(STREAMS_PREFIX, but=STREAM_SERVERS_PREFIX)

    async def _references(self) -> ReferenceSample:
        keys = [blob_key(BlobId(row[0])) for row in await self._meta.rows(rows.NEWEST_BLOBS, _SAMPLES)]
        if self._sample_streams is not None:
            keys += await self._sample_streams(_SAMPLES)
        for key in keys:
            try:
                await self._storage.head(key)
            except NotFound:
                continue
            return ReferenceSample.FOUND
        return ReferenceSample.MISSING if keys else ReferenceSample.NONE

    def _refusal(self, decision: StoreVerdict, own: DeploymentId, other: DeploymentId | None) -> StoreMismatch:
        ids = f"store={self._place} store_deployment={other or 'none'} metadata_deployment={own}"
        if decision is StoreVerdict.FOREIGN:
            return StoreMismatch(
                f"the object store belongs to another deployment; nothing was changed. {ids}."
                " Use the metadata that belongs to it (server.data, meta.url), or another bucket or prefix"
                " (storage.s3.bucket, storage.s3.prefix). If the other deployment is gone for good:"
                f" lakebed storage attach --replace {other}"
            )
        if decision is StoreVerdict.OBJECTS_MISSING:
            return StoreMismatch(
                f"the object store is empty, but the metadata refers to objects in it; nothing was changed. {ids}."
                " See that the disk is mounted and that bucket and prefix are right (storage.*). If the objects are"
                " lost: lakebed storage attach --accept-loss"
            )
        return StoreMismatch(
            "the object store holds objects that the metadata does not know, and carries no deployment id;"
            f" nothing was changed. {ids}. Use the metadata that belongs to it (server.data, meta.url), or another"
            " bucket or prefix (storage.s3.bucket, storage.s3.prefix). To use the store and keep those objects:"
            " lakebed storage attach"
        )
