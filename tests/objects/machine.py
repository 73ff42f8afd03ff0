"""Random operations on two buckets of an object store, compared with a model after every step.

The invariants include that of `publishing`: `objects` has a row for a key exactly if the newest version of the key is
not a delete marker; that row is the newest version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    InvalidInput,
    IsDeleteMarker,
    LakebedError,
    NoSuchKey,
    NoSuchVersion,
    PreconditionFailed,
)
from lakebed.objects.blobs.encryption import FRAME_BYTES
from lakebed.objects.blobs.orphan_sweep import SweepReport
from lakebed.objects.conditions import NO_WRITE_CONDITIONS, WriteConditions
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.copying import CopyChanges, CopySource
from lakebed.objects.deleting import DeletedObject, ObjectIdentifier
from lakebed.objects.events import decode_event
from lakebed.objects.model import DEFAULT_ATTRIBUTES, ObjectAttributes
from lakebed.objects.writing import NewObject

from .comparison import compare_listings, compare_reads
from .consistency import check_tables
from .model import NULL, ModelBucket, ModelVersion, md5
from .stores import INLINE_MAX_BYTES, ROOT, ObjectStore, OpenObjectStore

T = TypeVar("T")

BUCKETS = ("bucket-1", "bucket-2")
KEYS = ("a", "a/b", "a/b/c", "a0", "é/\U0010ffff")
BODY_SIZES = (0, 1, INLINE_MAX_BYTES, INLINE_MAX_BYTES + 1, FRAME_BYTES + 1)
ABSENT_VERSION = "0" * 28
PREFIXES = ("", "a", "a/", "a/b", "é/\U0010ffff", "z")
DELIMITERS = ("", "/", "b/")

# One bucket and one key are used more often, because repeated operations on a key are the interesting ones.
buckets = st.sampled_from(("bucket-1", *BUCKETS))
keys = st.sampled_from(("a/b", "a/b", "a/b", *KEYS))
bodies = st.builds(lambda letter, size: letter * size, st.sampled_from((b"x", b"y")), st.sampled_from(BODY_SIZES))
metadata = st.sampled_from(({}, {"colour": "red"}, {"colour": "blue", "shape": "round"}))
encryption = st.sampled_from((None, True, False))
ages = st.integers(0, 3)
statuses = st.sampled_from((Versioning.ENABLED, Versioning.SUSPENDED))
places = st.integers(0, 1000)
conditions = st.sampled_from(("none", "absent", "same", "other", "not same", "any"))


def failure_of(condition: str, current: ModelVersion | None) -> type[LakebedError] | None:
    """The error of a write under this condition."""
    if condition in ("same", "other", "any") and current is None:
        return NoSuchKey
    if condition == "other" or (condition in ("absent", "not same") and current is not None):
        return PreconditionFailed
    return None


def declared(condition: str, current: ModelVersion | None) -> WriteConditions:
    """The condition of a client's request."""
    etag = current.etag if current is not None else md5(b"nothing")
    return {
        "none": NO_WRITE_CONDITIONS,
        "absent": WriteConditions(if_none_match="*"),
        "same": WriteConditions(if_match=f'"{etag}"'),
        "other": WriteConditions(if_match=md5(b"something else")),
        "not same": WriteConditions(if_none_match=etag),
        "any": WriteConditions(if_match="*"),
    }[condition]


class ObjectMachine(RuleBasedStateMachine):
    """One event loop, store and model per example."""

    def __init__(self, open_object_store: OpenObjectStore) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.stack = AsyncExitStack()
        self.store: ObjectStore = self.run(self.stack.enter_async_context(open_object_store(self.clock)))
        self.model = {name: ModelBucket() for name in BUCKETS}
        self.last_seq = 0
        self.expected: list[tuple[str, str, str]] = []
        self.random = Random(0)
        for name in BUCKETS:
            self.run(self.store.bucket(name))
            self.expected.append(("BucketCreated", name, ""))

    def run(self, work: Coroutine[Any, Any, T]) -> T:  # Any: send and yield types concern only the event loop
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()

    @initialize(seed=st.integers(0, 2**32), status=st.sampled_from(tuple(Versioning)))
    def begin_example(self, seed: int, status: Versioning) -> None:
        """The seed determines the sizes of listing pages."""
        self.random = Random(seed)
        if status is not Versioning.UNVERSIONED:
            self.set_versioning(BUCKETS[0], status)

    @rule(name=buckets, key=keys, written=st.lists(st.tuples(bodies, metadata, encryption), min_size=1, max_size=3))
    def put(self, name: str, key: str, written: list[tuple[bytes, dict[str, str], bool | None]]) -> None:
        for body, meta, encrypt in written:
            self._put(name, key, body, meta, encrypt, "none")

    @rule(key=keys, statuses=st.lists(statuses, min_size=1, max_size=4), body=bodies)
    def put_and_set_versioning(self, key: str, statuses: list[Versioning], body: bytes) -> None:
        for status in statuses:
            self.set_versioning(BUCKETS[0], status)
            self._put(BUCKETS[0], key, body, {}, None, "none")

    @rule(name=buckets, key=keys, body=bodies, condition=conditions)
    def put_on_condition(self, name: str, key: str, body: bytes, condition: str) -> None:
        self._put(name, key, body, {}, None, condition)

    def _put(
        self, name: str, key: str, body: bytes, meta: dict[str, str], encrypt: bool | None, condition: str
    ) -> None:
        current = self.model[name].current(key)
        writing = self.store.put(
            name,
            key,
            body,
            attributes=ObjectAttributes(metadata=meta),
            encrypt=encrypt,
            conditions=declared(condition, current),
        )
        failure = failure_of(condition, current)
        if failure is not None:
            with pytest.raises(failure):
                self.run(writing)
            return
        stored = self.run(writing).object
        self.added(
            name,
            key,
            ModelVersion(stored.version, body, md5(body), self.clock.now_ms(), meta, encrypted=bool(encrypt)),
            "ObjectCreated:Put",
        )

    def added(self, name: str, key: str, version: ModelVersion, event: str) -> None:
        """Add a version or delete marker to the model, and check its event."""
        bucket = self.model[name]
        if bucket.versioning is Versioning.ENABLED:
            assert all(version.id != old.id for old in bucket.keys.get(key, []))
            assert version.id != NULL
        else:
            assert version.id == NULL
        bucket.add(key, version)
        self.expected.append((event, f"{name}/{key}", version.id))

    def _pick(self, name: str, key: str, age: int) -> str:
        """The id of a version, newest first; an id without version if there are not as many."""
        versions = self.model[name].keys.get(key, [])
        return versions[age].id if age < len(versions) else ABSENT_VERSION

    def _choose(self, place: int) -> tuple[str, str, str]:
        """An existing version: its bucket, key and id."""
        everything = [
            (name, key, version.id) for name, bucket in self.model.items() for key, version, _ in bucket.versions()
        ]
        return everything[place % len(everything)]

    def _has_versions(self) -> bool:
        return any(bucket.keys for bucket in self.model.values())

    @precondition(_has_versions)
    @rule(
        place=places,
        by_version=st.booleans(),
        to=buckets,
        to_key=keys,
        changed=metadata,
        replaces=st.booleans(),
        encrypt=encryption,
        condition=conditions,
    )
    def copy(
        self,
        place: int,
        by_version: bool,
        to: str,
        to_key: str,
        changed: dict[str, str],
        replaces: bool,
        encrypt: bool | None,
        condition: str,
    ) -> None:
        source, key, chosen = self._choose(place)
        version = chosen if by_version else None
        self._copy(source, key, version, to, to_key, changed if replaces else None, encrypt, condition)

    @precondition(_has_versions)
    @rule(place=places, changed=metadata, encrypt=encryption)
    def copy_onto_itself(self, place: int, changed: dict[str, str], encrypt: bool | None) -> None:
        name, key, _ = self._choose(place)
        self._copy(name, key, None, name, key, changed, encrypt, "none")

    def _copy(
        self,
        source: str,
        key: str,
        version: str | None,
        to: str,
        to_key: str,
        changed: dict[str, str] | None,
        encrypt: bool | None,
        condition: str,
    ) -> None:
        original = self._find(source, key, version)
        current = self.model[to].current(to_key)
        copying = self.store.copier.copy(
            ROOT,
            CopySource(source, key, version),
            to,
            NewObject(to_key, DEFAULT_ATTRIBUTES, encrypt, declared(condition, current)),
            CopyChanges(None if changed is None else ObjectAttributes(metadata=changed)),
        )
        failure = failure_of(condition, current)
        if (source, key, version) == (to, to_key, None) and changed is None and encrypt is None:
            failure = InvalidInput
        if isinstance(original, type):
            failure = original
        if failure is not None:
            with pytest.raises(failure):
                self.run(copying)
            return
        assert isinstance(original, ModelVersion)
        assert original.body is not None
        stored = self.run(copying).written.object
        shares = original.encrypted == bool(encrypt)
        self.added(
            to,
            to_key,
            ModelVersion(
                stored.version,
                original.body,
                original.etag if shares else md5(original.body),
                self.clock.now_ms(),
                original.metadata if changed is None else changed,
                original.tags,
                bool(encrypt),
                original.part_sizes if shares else (),
            ),
            "ObjectCreated:Copy",
        )

    def _find(self, name: str, key: str, version: str | None) -> ModelVersion | type[LakebedError]:
        """The result of a read, or its error."""
        bucket = self.model[name]
        if version is None:
            return bucket.current(key) or NoSuchKey
        for found in bucket.keys.get(key, []):
            if found.id == version:
                return IsDeleteMarker if found.is_marker else found
        return NoSuchVersion

    @rule(name=buckets, key=keys, age=st.none() | ages, tags=st.sampled_from(((), (("team", "a"),))))
    def tag(self, name: str, key: str, age: int | None, tags: tuple[tuple[str, str], ...]) -> None:
        version = None if age is None else self._pick(name, key, age)
        found = self._find(name, key, version)
        tagging = self.store.tags_and_locks.set_tags(ROOT, name, key, version, TagSet(tuple(Tag(*tag) for tag in tags)))
        if isinstance(found, type):
            with pytest.raises(found):
                self.run(tagging)
            return
        self.run(tagging)
        versions = self.model[name].keys[key]
        versions[versions.index(found)] = ModelVersion(
            found.id,
            found.body,
            found.etag,
            found.modified_ms,
            found.metadata,
            tags,
            found.encrypted,
            found.part_sizes,
        )
        self.expected.append((f"ObjectTagging:{'Put' if tags else 'Delete'}", f"{name}/{key}", found.id))

    def _deleted(self, name: str, doomed: ObjectIdentifier, outcome: DeletedObject) -> None:
        """Apply a deletion to the model."""
        bucket = self.model[name]
        key = doomed.key
        if doomed.version is not None:
            removed = bucket.remove(key, doomed.version)
            marker = removed.id if removed is not None and removed.is_marker else None
            assert outcome == DeletedObject(key, doomed.version, marker=outcome.marker)
            assert outcome.marker == marker
            if removed is not None:
                self.expected.append(("ObjectRemoved:Delete", f"{name}/{key}", removed.id))
        elif bucket.versioning is Versioning.UNVERSIONED:
            assert outcome == DeletedObject(key)
            if bucket.remove(key, NULL) is not None:
                self.expected.append(("ObjectRemoved:Delete", f"{name}/{key}", NULL))
        else:
            assert outcome.made_marker
            assert outcome.marker is not None
            marker_version = ModelVersion(outcome.marker, None, "", self.clock.now_ms())
            self.added(name, key, marker_version, "ObjectRemoved:DeleteMarkerCreated")

    @rule(name=buckets, key=keys, condition=st.sampled_from(("none", "same", "other", "any")))
    def delete(self, name: str, key: str, condition: str) -> None:
        current = self.model[name].current(key)
        doomed = ObjectIdentifier(key, None, declared(condition, current))
        failure = failure_of(condition, current)
        deleting = self.store.deleter.delete(ROOT, name, doomed)
        if failure is not None:
            with pytest.raises(failure):
                self.run(deleting)
            return
        self._deleted(name, doomed, self.run(deleting))

    @precondition(_has_versions)
    @rule(place=places)
    def delete_version(self, place: int) -> None:
        name, key, version = self._choose(place)
        doomed = ObjectIdentifier(key, version)
        self._deleted(name, doomed, self.run(self.store.deleter.delete(ROOT, name, doomed)))

    def _hidden(self) -> list[tuple[str, str]]:
        return [
            (name, key)
            for name, bucket in self.model.items()
            for key, versions in bucket.keys.items()
            if versions[0].is_marker and len(versions) > 1
        ]

    def _has_hidden(self) -> bool:
        return bool(self._hidden())

    @precondition(_has_hidden)
    @rule(place=places)
    def delete_newest_marker(self, place: int) -> None:
        """Deleting the newest marker makes the version behind it current, unless that is a marker too."""
        name, key = self._hidden()[place % len(self._hidden())]
        doomed = ObjectIdentifier(key, self._pick(name, key, 0))
        self._deleted(name, doomed, self.run(self.store.deleter.delete(ROOT, name, doomed)))

    @rule(name=buckets, chosen=st.lists(st.tuples(keys, st.none() | ages, st.booleans()), max_size=4))
    def delete_many(self, name: str, chosen: list[tuple[str, int | None, bool]]) -> None:
        """A batch with a false condition on some keys: only those fail."""
        impossible = WriteConditions(if_match=md5(b"something else"))
        batch = [
            ObjectIdentifier(
                key,
                None if age is None else self._pick(name, key, age),
                impossible if refused else NO_WRITE_CONDITIONS,
            )
            for key, age, refused in chosen
        ]
        outcomes = self.run(self.store.deleter.delete_many(ROOT, name, batch))
        for doomed, outcome, (_, _, refused) in zip(batch, outcomes, chosen, strict=True):
            if refused:
                assert isinstance(outcome, NoSuchKey | PreconditionFailed)
            else:
                assert isinstance(outcome, DeletedObject)
                self._deleted(name, doomed, outcome)

    @rule(name=buckets, status=statuses)
    def set_versioning(self, name: str, status: Versioning) -> None:
        self.run(self.store.buckets.set_versioning(ROOT, name, status))
        self.model[name].versioning = status
        self.expected.append(("BucketConfigured", name, ""))

    @rule(milliseconds=st.sampled_from((1, 1000)))
    def wait(self, milliseconds: int) -> None:
        """Versions of one millisecond must keep their order, so time moves only occasionally."""
        self.clock.advance(milliseconds / 1000)

    @rule()
    def clean_up(self) -> None:
        """The sweep deletes garbage and nothing else: no step leaves an orphan."""
        due = self.run(self.store.meta.rows("SELECT id FROM garbage"))
        assert self.run(self.store.orphan_sweep.sweep()) == SweepReport(garbage=len(due))
        assert self.run(self.store.meta.rows("SELECT id FROM garbage")) == []

    @invariant()
    def tables_agree(self) -> None:
        self.run(check_tables(self.store))

    @invariant()
    def one_event_a_change(self) -> None:
        entries = self.run(self.store.events(self.last_seq))
        found = []
        for entry in entries:
            payload = decode_event(entry.event.payload)
            version = payload.version or (NULL if payload.key else "")
            found.append((entry.event.kind, entry.event.subject, version))
        assert found == self.expected
        self.expected.clear()
        if entries:
            self.last_seq = entries[-1].seq

    @invariant()
    def listings_agree(self) -> None:
        for name, bucket in self.model.items():
            prefix, delimiter = self.random.choice(PREFIXES), self.random.choice(DELIMITERS)
            self.run(compare_listings(self.store, name, bucket, self.random, prefix=prefix, delimiter=delimiter))

    @invariant()
    def reads_agree(self) -> None:
        for name, bucket in self.model.items():
            self.run(compare_reads(self.store, name, bucket, KEYS))
