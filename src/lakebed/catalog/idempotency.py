"""Idempotency keys: the response commits with the change and is returned for later requests with the same key.

A request whose key has a stored response does not run again. Of two concurrent requests with one key, the commit of the
first makes the second roll back (`AlreadyAnswered`) and return the stored response. `keep` must be the first step of a
transaction: later steps would find the change made and fail.
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
"""How long a response is stored: longer than any client retries."""


class RequestKey(NamedTuple):
    """An `Idempotency-Key` and the request that it was sent with."""

    id: str
    request: str
    """A digest of caller and request: a key belongs to one request."""


class Mutation(NamedTuple):
    """The caller of a change, and its idempotency key."""

    caller: Caller
    key: RequestKey | None = None


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    """The response to a request, as it is stored."""

    status: int
    entry: str = ""
    """The table or view to load again for the body, which may show newer state."""
    body: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredResponse).decode


class IdempotencyKeys:
    """Stores responses by idempotency key."""

    def __init__(self, meta: MetaStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def find(self, key: RequestKey) -> StoredResponse | None:
        """The response to an earlier request with this key. Raises InvalidInput if that was a different request."""
        row = await self._meta.row(rows.STORED_RESPONSE, key.id)
        if row is None or row[2] < self._clock.now_ms() - LIFETIME_MS:
            return None
        if row[0] != key.request:
            raise InvalidInput(
                "idempotency key was used for a different request; send a new key with each request",
                argument="Idempotency-Key",
            )
        return _decode(row[1])

    async def keep(self, tx: Transaction, key: RequestKey | None, answer: StoredResponse) -> None:
        """Store the response, as a step of a transaction. Raises AlreadyAnswered."""
        if key is None:
            return
        if not await self._insert(tx, key, answer):
            raise DuplicateRequest("idempotency key already has a response")

    async def store_error(self, key: RequestKey, answer: StoredResponse) -> None:
        """Store the error response of a request that changed nothing, unless one is stored."""

        async def work(tx: Transaction) -> None:
            await self._insert(tx, key, answer)

        await self._meta.transact(work)

    async def _insert(self, tx: Transaction, key: RequestKey, answer: StoredResponse) -> bool:
        now_ms = self._clock.now_ms()
        await tx.run(rows.DELETE_EXPIRED_RESPONSE, key.id, now_ms - LIFETIME_MS)
        return await tx.row(rows.INSERT_RESPONSE, key.id, key.request, _encode(answer), now_ms) is not None

    async def delete_expired(self) -> int:
        """Delete expired responses. Returns their number."""
        before = self._clock.now_ms() - LIFETIME_MS

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.DELETE_EXPIRED_RESPONSES, before)

        return await self._meta.transact(work)
