"""Requests that may be sent again: the answer commits with the change, and is given again to the same key.

A key that finds its answer never runs its request again. Two requests with one key that run at the same time both do
the work, and the commit of one makes the other roll back (`DuplicateRequest`) and take the answer that is there. So
`keep` is the first step of a transaction: what follows would find the change made, and refuse to make it again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import DuplicateRequest, InvalidInput
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.model import Caller

from . import rows

LIFETIME_MS: Final = 24 * 3_600_000
"""How long an answer is kept: longer than any client goes on retrying."""


class RequestKey(NamedTuple):
    """An `Idempotency-Key` and what it was sent with."""

    id: str
    request: str
    """A digest of who asked for what: a key belongs to one request."""


class Mutation(NamedTuple):
    """Who changes something, and under which key."""

    caller: Caller
    key: RequestKey | None = None


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    """What a request was answered."""

    status: int
    entry: str = ""
    """The table or view to load again for the body: it may show newer state."""
    body: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredResponse).decode


class IdempotencyKeys:
    """Answers by key."""

    def __init__(self, meta: MetaStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def find(self, key: RequestKey) -> StoredResponse | None:
        """The answer of an earlier request with this key. Raises InvalidInput when that was another request."""
        row = await self._meta.row(rows.STORED_RESPONSE, key.id)
        if row is None or row[2] < self._clock.now_ms() - LIFETIME_MS:
            return None
        if row[0] != key.request:
            raise InvalidInput(
                "the idempotency key was used for another request; make a new key for each",
                argument="Idempotency-Key",
            )
        return _decode(row[1])

    async def keep(self, tx: Transaction, key: RequestKey | None, answer: StoredResponse) -> None:
        """The step of a transaction that keeps its answer. Raises DuplicateRequest."""
        if key is None:
            return
        if not await self._insert(tx, key, answer):
            raise DuplicateRequest("a request with this idempotency key was answered already")

    async def keep_refusal(self, key: RequestKey, answer: StoredResponse) -> None:
        """Keep the answer of a request that changed nothing, unless there is one."""

        async def work(tx: Transaction) -> None:
            await self._insert(tx, key, answer)

        await self._meta.transact(work)

    async def _insert(self, tx: Transaction, key: RequestKey, answer: StoredResponse) -> bool:
        now_ms = self._clock.now_ms()
        await tx.run(rows.DELETE_EXPIRED_RESPONSE, key.id, now_ms - LIFETIME_MS)
        return await tx.row(rows.INSERT_RESPONSE, key.id, key.request, _encode(answer), now_ms) is not None

    async def delete_expired(self) -> int:
        """Remove answers nobody can ask for any more; how many."""
        before = self._clock.now_ms() - LIFETIME_MS

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.DELETE_EXPIRED_RESPONSES, before)

        return await self._meta.transact(work)
