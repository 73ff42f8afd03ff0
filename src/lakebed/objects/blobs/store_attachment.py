"""Checks at start that the object store belongs to the metadata store, and attaches one to the other (ADR 40).

The rule: both carry the same deployment id, or neither contains data of another deployment. If that cannot be proved,
the server refuses to start, reports both ids and the remedies, and changes nothing.
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
"""Objects that stream servers write at start and that belong to no table."""

_SAMPLES: Final = 16

SampleKeys = Callable[[int], Awaitable[Sequence[Key]]]
"""Returns up to N keys in the object store that the metadata references."""


class ReferenceSample(Enum):
    """The result of checking a sample of the metadata's references to the object store."""

    NONE = "none"
    """The metadata references no object."""
    FOUND = "found"
    """The store has a referenced object: random ids do not match by chance."""
    MISSING = "missing"
    """The metadata references objects, and the store has none of the sample."""


@dataclass(frozen=True, slots=True)
class StoreEvidence:
    """What is known of a metadata store and an object store before anything is written."""

    metadata_deployment: DeploymentId
    store_deployment: DeploymentId | None
    store_is_empty: bool
    references: ReferenceSample


class StoreVerdict(Enum):
    """The conclusion from the evidence."""

    BELONGS = "belongs"
    CLAIM = "claim"
    """First start: both are empty, and the store gets the id."""
    ADOPT = "adopt"
    """The store was written before stores carried ids, and its objects prove that it is this deployment's."""
    FOREIGN = "foreign"
    """The store carries another id."""
    UNKNOWN_OBJECTS = "unknown objects"
    """The store has no id, and holds objects that the metadata does not reference."""
    OBJECTS_MISSING = "objects missing"
    """The store is empty, and the metadata references objects."""


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
    """The evidence and the verdict."""

    evidence: StoreEvidence
    decision: StoreVerdict


class StoreAttachment:
    """Attaches an object store to a metadata store."""

    def __init__(
        self,
        meta: MetaStore,
        storage: ObjectStorage,
        place: str,
        *,
        sample_streams: SampleKeys | None = None,
        before_attaching: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`place` names the object store in errors; `sample_streams` returns keys of stream tables.

        `before_attaching` deletes metadata about servers on the former store.
        """
        self._before_attaching = before_attaching
        self._meta = meta
        self._storage = storage
        self._place = place
        self._sample_streams = sample_streams

    async def confirm_at_start(self) -> StoreOwnership:
        """Check that the stores belong together; claim an empty store at the first start.

        Costs one read of the object store, unless it has no id. Raises StoreMismatch, Unavailable.
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
        """Compare the stores. The metadata store gets an id if it has none; nothing else is written."""
        own = await establish_deployment_id(self._meta)
        evidence = await self._collect_evidence(own)
        if evidence.store_deployment is None and not evidence.store_is_empty:
            # Another server may have written id and objects between the two reads.
            marker = await read_marker(self._storage)
            if marker is not None:
                evidence = StoreEvidence(own, marker.deployment, store_is_empty=False, references=evidence.references)
        return StoreState(evidence, decide(evidence))

    async def attach(self, *, replacing: DeploymentId | None, accept_loss: bool) -> StoreState:
        """Attach the store to this deployment on an operator's request; the state before.

        `replacing` repeats the id that the store carries. `accept_loss` confirms that objects the metadata references
        are missing from the store. Objects in the store that the metadata does not reference are kept forever.
        Raises StateConflict if the request does not match the state.
        """
        state = await self.inspect()
        evidence = state.evidence
        if state.decision is StoreVerdict.BELONGS:
            return state
        if evidence.store_deployment != replacing:
            raise StateConflict(
                "the object store carries another deployment id than the one to replace."
                f" store={self._place} expected={replacing} found={evidence.store_deployment}"
            )
        if evidence.references is ReferenceSample.MISSING and not accept_loss:
            raise StateConflict(
                "the metadata refers to objects that this store does not have; reads of them would fail."
                f" store={self._place} metadata_deployment={evidence.metadata_deployment}"
            )
        if evidence.references is not ReferenceSample.FOUND and await self._has_stream_tables():
            # Logs are found by the names of their tables, so another deployment's would be taken for this one's.
            raise StateConflict(
                "the store holds stream tables of another deployment; move them away, or use another prefix."
                f" store={self._place} prefix={STREAMS_PREFIX}"
            )
        if self._before_attaching is not None:
            await self._before_attaching()
        marker = DeploymentMarker(evidence.metadata_deployment, attached=not evidence.store_is_empty)
        await claim_marker(self._storage, marker, replacing=True)
        return state

    async def _collect_evidence(self, own: DeploymentId) -> StoreEvidence:
        marker = await read_marker(self._storage)
        is_empty = not (await self._has_any(BLOBS_PREFIX) or await self._has_stream_tables())
        return StoreEvidence(own, None if marker is None else marker.deployment, is_empty, await self._references())

    async def _has_any(self, prefix: str, *, but: str | None = None) -> bool:
        """Whether the store has an object below `prefix`, but not below `but`."""
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
                " (storage.s3.bucket, storage.s3.prefix). If the other deployment no longer exists:"
                f" lakebed storage attach --replace {other}"
            )
        if decision is StoreVerdict.OBJECTS_MISSING:
            return StoreMismatch(
                f"the object store is empty, but the metadata references objects in it; nothing was changed. {ids}."
                " Check that the disk is mounted and that bucket and prefix are right (storage.*). If the objects are"
                " lost: lakebed storage attach --accept-loss"
            )
        return StoreMismatch(
            "the object store holds objects that the metadata does not know, and carries no deployment id;"
            f" nothing was changed. {ids}. Use the metadata that belongs to it (server.data, meta.url), or another"
            " bucket or prefix (storage.s3.bucket, storage.s3.prefix). To use the store and keep those objects:"
            " lakebed storage attach"
        )
