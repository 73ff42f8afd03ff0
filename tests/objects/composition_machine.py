"""Random operations with composed objects, including deletions of their bases."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from lakebed.core.errors import WriteConflict
from lakebed.objects.blobs.composition import BaseContent, BaseRange
from lakebed.objects.blobs.encryption import FRAME_BYTES

from .machine import buckets, encryption, keys, places
from .model import ModelVersion, md5
from .stores import INLINE_MAX_BYTES, range_of
from .upload_machine import ObjectStoreMachine

base_bodies = st.sampled_from(
    (
        bytes(range(INLINE_MAX_BYTES + 4)),
        bytes(range(200)),
        (bytes(range(251)) * (FRAME_BYTES // 251 + 1))[: FRAME_BYTES + 9],
    )
)
# Fractions of a body, so that they can be drawn before it is chosen.
part_choices = st.lists(
    st.binary(max_size=6) | st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).map(tuple), min_size=1, max_size=5
)


@dataclass(frozen=True, slots=True)
class Base:
    """An object that was put, with its bytes; its key may have been replaced or deleted."""

    content: BaseContent
    body: bytes


class CompositionMachine(ObjectStoreMachine):
    """Objects, uploads and composed objects."""

    bases: list[Base]

    def _bases(self) -> list[Base]:
        if not hasattr(self, "bases"):
            self.bases = []
        return self.bases

    def _has_bases(self) -> bool:
        return bool(self._bases())

    @rule(name=buckets, key=keys, body=base_bodies, encrypt=encryption)
    def put_base(self, name: str, key: str, body: bytes, encrypt: bool | None) -> None:
        written = self.run(self.store.put(name, key, body, encrypt=encrypt))
        stored = written.object
        self.added(
            name,
            key,
            ModelVersion(stored.version, body, md5(body), self.clock.now_ms(), encrypted=bool(encrypt)),
            "ObjectCreated:Put",
        )
        content = self.run(self.store.base_of(written))
        assert content is not None
        self._bases().append(Base(content, body))

    @precondition(_has_bases)
    @rule(
        name=buckets,
        chosen=st.lists(st.tuples(keys, part_choices), min_size=1, max_size=3),
        which=places,
    )
    def compose(self, name: str, chosen: list[tuple[str, list[bytes | tuple[float, float]]]], which: int) -> None:
        """Mostly from the newest bases: deleted ones cannot be used, and all are deleted eventually."""
        bases = self._bases()[-3:]
        base = bases[which % len(bases)]
        for key, shares in chosen:
            self._compose(name, key, base, shares)

    def _compose(self, name: str, key: str, base: Base, shares: list[bytes | tuple[float, float]]) -> None:
        size = len(base.body)
        parts: list[bytes | BaseRange] = []
        body = b""
        for share in (*shares, (0.0, 0.5)):
            if isinstance(share, bytes):
                parts.append(share)
                body += share
            else:
                start, end = int(share[0] * size), int(share[1] * size)
                parts.append(range_of(base.body, start, end))
                body += base.body[start:end]
        exists = self.run(self.store.meta.row("SELECT 1 FROM contents WHERE id = ?", base.content.content))
        composing = self.store.compose(name, key, base.content, *parts)
        if exists is None:
            with pytest.raises(WriteConflict):
                self.run(composing)
            return
        stored = self.run(composing).object
        self.added(
            name,
            key,
            ModelVersion(stored.version, body, stored.etag, self.clock.now_ms(), encrypted=base.content.encrypted),
            "ObjectCreated:Put",
        )
