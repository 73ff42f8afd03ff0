"""A request's body: received into buffers ahead of its reader, never more than a few of them.

The protocol fills buffers as bytes arrive and hands over whole ones; when `MAX_WAITING` of them wait, it stops reading
from the socket until the reader takes one. So a slow disk slows its client and costs no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from lakebed.core.buffers import BUFFER_BYTES
from lakebed.core.errors import Incomplete, TooLarge

CHUNK_BYTES: Final = BUFFER_BYTES
"""Size of the pieces handed to the reader of a large body."""

MAX_WAITING: Final = 2
"""Full buffers that may wait for the reader before reading from the socket pauses."""


class RequestBody:
    """Bytes still to come, or already here. Read once, by `read` or by `next_chunk`."""

    __slots__ = (
        "_aborted",
        "_on_first_read",
        "_on_room",
        "_pieces",
        "_waiter",
        "chunked",
        "finished",
        "length",
        "received",
        "taken",
    )

    def __init__(self, length: int | None, *, chunked: bool = False) -> None:
        self.length = length
        """Content-Length, or None when the transfer is chunked."""
        self.chunked = chunked
        self.received = 0
        self.taken = 0
        self.finished = length == 0 and not chunked
        self._pieces: deque[bytes | memoryview] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._aborted = False
        self._on_first_read: Callable[[], None] | None = None
        self._on_room: Callable[[], None] | None = None

    # -- the protocol's side --------------------------------------------------------------------------------------

    def attach(self, on_first_read: Callable[[], None] | None, on_room: Callable[[], None]) -> None:
        """Tell the protocol of the first read (to send 100 Continue) and of room for more."""
        self._on_first_read = on_first_read
        self._on_room = on_room

    def push(self, piece: bytes | memoryview) -> None:
        """Hand over bytes that have arrived."""
        self.received += len(piece)
        self._pieces.append(piece)
        self._wake()

    def finish(self) -> None:
        """All bytes have arrived."""
        self.finished = True
        self._wake()

    def abort(self) -> None:
        """The sender went away before the end."""
        self._aborted = True
        self._wake()

    @property
    def is_full(self) -> bool:
        """Whether the sender should pause."""
        return len(self._pieces) >= MAX_WAITING

    @property
    def is_awaited(self) -> bool:
        """Whether its reader waits for the sender, rather than the sender for its reader."""
        return self._waiter is not None

    @property
    def awaits_continue(self) -> bool:
        """Whether the client still waits for 100 Continue."""
        return self._on_first_read is not None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the reader's side ----------------------------------------------------------------------------------------

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next piece, or None at the end. The caller owns it. Raises Incomplete if the sender stopped early."""
        if self._on_first_read is not None:
            announce, self._on_first_read = self._on_first_read, None
            announce()
        while not self._pieces:
            if self.finished:
                return None
            if self._aborted:
                raise Incomplete(
                    f"the connection ended inside the body. received={self.received} expected={self.length}"
                )
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = self._pieces.popleft()
        self.taken += len(piece)
        if self._on_room is not None and not self.finished and len(self._pieces) < MAX_WAITING:
            self._on_room()
        return piece

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises TooLarge if it is over `limit`, before reading it where its length says so."""
        if self.length is not None and self.length > limit:
            raise TooLarge(f"body too large. size={self.length} limit={limit}")
        pieces: list[bytes | memoryview] = []
        size = 0
        while (piece := await self.next_chunk()) is not None:
            size += len(piece)
            if size > limit:
                raise TooLarge(f"body too large. limit={limit}")
            pieces.append(piece)
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            return pieces[0]
        return b"".join(pieces)
