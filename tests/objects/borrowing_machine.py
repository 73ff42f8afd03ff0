"""Random work with objects among it that borrow from others, whatever became of those."""

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

lender_bodies = st.sampled_from(
    (
        bytes(range(INLINE_MAX_BYTES + 4)),
        bytes(range(200)),
        (bytes(range(251)) * (FRAME_BYTES // 251 + 1))[: FRAME_BYTES + 9],
    )
)
# Shares of a body, so that they can be drawn before it is chosen.
part_choices = st.lists(
    st.binary(max_size=6) | st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).map(tuple), min_size=1, max_size=5
)


@dataclass(frozen=True, slots=True)
class Lender:
    """An object that was put, and what it was; its key may have been written over, or deleted."""

    loan: BaseContent
    body: bytes


class BorrowingMachine(ObjectStoreMachine):
    """Objects, uploads, and objects that borrow."""

    lenders: list[Lender]

    def _lenders(self) -> list[Lender]:
        if not hasattr(self, "lenders"):
            self.lenders = []
        return self.lenders

    def _has_lenders(self) -> bool:
        return bool(self._lenders())

    @rule(name=buckets, key=keys, body=lender_bodies, encrypt=encryption)
    def put_lender(self, name: str, key: str, body: bytes, encrypt: bool | None) -> None:
        written = self.run(self.store.put(name, key, body, encrypt=encrypt))
        stored = written.object
        self.added(
            name,
            key,
            ModelVersion(stored.version, body, md5(body), self.clock.now_ms(), encrypted=bool(encrypt)),
            "ObjectCreated:Put",
        )
        loan = self.run(self.store.lend(written))
        assert loan is not None
        self._lenders().append(Lender(loan, body))

    @precondition(_has_lenders)
    @rule(
        name=buckets,
        chosen=st.lists(st.tuples(keys, part_choices), min_size=1, max_size=3),
        which=places,
    )
    def borrow(self, name: str, chosen: list[tuple[str, list[bytes | tuple[float, float]]]], which: int) -> None:
        """Of the newest lenders mostly: what is gone lends nothing, and everything goes in the end."""
        lenders = self._lenders()[-3:]
        lender = lenders[which % len(lenders)]
        for key, shares in chosen:
            self._borrow(name, key, lender, shares)

    def _borrow(self, name: str, key: str, lender: Lender, shares: list[bytes | tuple[float, float]]) -> None:
        size = len(lender.body)
        parts: list[bytes | BaseRange] = []
        body = b""
        for share in (*shares, (0.0, 0.5)):
            if isinstance(share, bytes):
                parts.append(share)
                body += share
            else:
                start, end = int(share[0] * size), int(share[1] * size)
                parts.append(range_of(lender.body, start, end))
                body += lender.body[start:end]
        is_there = self.run(self.store.meta.row("SELECT 1 FROM contents WHERE id = ?", lender.loan.content))
        composing = self.store.compose(name, key, lender.loan, *parts)
        if is_there is None:
            with pytest.raises(WriteConflict):
                self.run(composing)
            return
        stored = self.run(composing).object
        self.added(
            name,
            key,
            ModelVersion(stored.version, body, stored.etag, self.clock.now_ms(), encrypted=lender.loan.encrypted),
            "ObjectCreated:Put",
        )
