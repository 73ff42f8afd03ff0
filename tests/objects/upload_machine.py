"""Random operations with multipart uploads."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from lakebed.core.errors import InvalidPart, NoSuchUpload, PartTooSmall
from lakebed.objects.model import ObjectAttributes, StoredUpload

from .machine import ObjectMachine, buckets, conditions, declared, encryption, failure_of, keys, metadata, places
from .model import NULL, ModelUpload, ModelVersion, md5
from .stores import ROOT

MIN_PART_BYTES = 4
"""Instead of 5 MiB, so that parts both above and below the limit occur."""

part_bodies = st.sampled_from((b"", b"abc", b"part", b"a longer part", b"the longest of all the parts"))


class ObjectStoreMachine(ObjectMachine):
    """Objects and multipart uploads."""

    def _uploads(self) -> list[tuple[str, str, ModelUpload]]:
        return [
            (name, upload_id, upload)
            for name, bucket in self.model.items()
            for upload_id, upload in bucket.uploads.items()
        ]

    def _has_uploads(self) -> bool:
        return bool(self._uploads())

    @rule(
        name=buckets,
        key=keys,
        meta=metadata,
        encrypt=encryption,
        parts=st.dictionaries(st.integers(1, 3), part_bodies),
    )
    def begin(self, name: str, key: str, meta: dict[str, str], encrypt: bool | None, parts: dict[int, bytes]) -> None:
        stored = self.run(self.store.begin(name, key, attributes=ObjectAttributes(metadata=meta), encrypt=encrypt))
        for number, body in parts.items():
            self.run(self.store.put_part(stored, number, body))
        self.model[name].uploads[stored.id] = ModelUpload(key, meta, bool(encrypt), dict(parts))

    @precondition(_has_uploads)
    @rule(which=places, number=st.integers(1, 3), body=part_bodies)
    def put_part(self, which: int, number: int, body: bytes) -> None:
        name, upload_id, upload = self._uploads()[which % len(self._uploads())]
        admitting = self.store.uploads.authorize_part(ROOT, name, upload.key, upload_id, number)
        if upload.listed is not None:
            with pytest.raises(NoSuchUpload):
                self.run(admitting)
            return
        _, stored = self.run(admitting)
        self.run(self.store.put_part(stored, number, body))
        upload.parts[number] = body

    @precondition(_has_uploads)
    @rule(which=places, left_out=st.none() | st.integers(1, 3))
    def complete(self, which: int, left_out: int | None) -> None:
        """Complete with all parts, or all but one."""
        name, upload_id, upload = self._uploads()[which % len(self._uploads())]
        numbers = {number for number in upload.parts if number != left_out} or {1}
        self._complete(name, upload_id, upload, numbers, "none")

    @precondition(_has_uploads)
    @rule(which=places, numbers=st.sets(st.integers(1, 3), min_size=1), condition=conditions)
    def complete_on_condition(self, which: int, numbers: set[int], condition: str) -> None:
        name, upload_id, upload = self._uploads()[which % len(self._uploads())]
        self._complete(name, upload_id, upload, numbers, condition)

    def _complete(self, name: str, upload_id: str, upload: ModelUpload, numbers: set[int], condition: str) -> None:
        bucket = self.model[name]
        current = bucket.current(upload.key)
        listed = tuple((number, md5(upload.parts.get(number, b""))) for number in sorted(numbers))
        bodies = [upload.parts[number] for number, _ in listed if number in upload.parts]
        stored = StoredUpload(upload_id, None, upload.key, 0, None, None, None)  # type: ignore[arg-type]  # only its names count
        completing = self.store.complete(name, stored, listed, declared(condition, current))
        failure = failure_of(condition, current)
        if any(len(body) < MIN_PART_BYTES for body in bodies[:-1]):
            failure = PartTooSmall
        if len(bodies) < len(listed):
            failure = InvalidPart
        if upload.listed is not None:
            # A repeated completion with the same list gets the same response, even if the object has changed.
            if listed == upload.listed:
                repeated = self.run(completing)
                assert (repeated.etag, repeated.version or NULL) == (upload.etag, upload.version)
                return
            failure = NoSuchUpload
        if failure is not None:
            with pytest.raises(failure):
                self.run(completing)
            return
        done = self.run(completing)
        digests = b"".join(bytes.fromhex(md5(body)) for body in bodies)
        etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(bodies)}"
        assert done.etag == etag
        upload.listed, upload.etag, upload.version = listed, etag, done.version or NULL
        self.added(
            name,
            upload.key,
            ModelVersion(
                done.version or NULL,
                b"".join(bodies),
                etag,
                self.clock.now_ms(),
                upload.metadata,
                encrypted=upload.encrypted,
                part_sizes=tuple(map(len, bodies)),
            ),
            "ObjectCreated:CompleteMultipartUpload",
        )

    @precondition(_has_uploads)
    @rule(which=places)
    def abort(self, which: int) -> None:
        name, upload_id, upload = self._uploads()[which % len(self._uploads())]
        aborting = self.store.uploads.abort(ROOT, name, upload.key, upload_id)
        if upload.listed is not None:
            with pytest.raises(NoSuchUpload):
                self.run(aborting)
            return
        self.run(aborting)
        del self.model[name].uploads[upload_id]
