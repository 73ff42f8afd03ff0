"""A request body with backpressure.

The protocol fills buffers as bytes arrive. When `MAX_WAITING` full buffers wait for the reader, the protocol stops
reading from the socket. So a slow disk slows down its client and costs no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from lakebed.core.buffers import BUFFER_BYTES
from lakebed.core.errors import Incomplete, TooLarge

CHUNK_BYTES: Final = BUFFER_BYTES
"""Size of the pieces of a large body."""

MAX_WAITING: Final = 2
"""Full buffers that may wait for the reader; more of them pause reading from the socket."""


class RequestBody:
    """A request body, possibly still arriving. Can be read once, with `read` or `next_chunk`."""

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
    )

    def __init__(self, length: int | None, *, chunked: bool = False) -> None:
        self.length = length
        """Content-Length, or None when the transfer is chunked."""
        self.chunked = chunked
        self.received = 0
        self.finished = length == 0 and not chunked
        self._pieces: deque[bytes | memoryview] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._aborted = False
        self._on_first_read: Callable[[], None] | None = None
        self._on_room: Callable[[], None] | None = None

    # -- the protocol's side --------------------------------------------------------------------------------------

    def attach(self, on_first_read: Callable[[], None] | None, on_room: Callable[[], None]) -> None:
        """Set the callbacks for the first read (to send 100 Continue) and for free buffers (to resume reading)."""
        self._on_first_read = on_first_read
        self._on_room = on_room

    def push(self, piece: bytes | memoryview) -> None:
        """Append received bytes."""
        self.received += len(piece)
        self._pieces.append(piece)
        self._wake()

    def finish(self) -> None:
        """Mark the body as complete."""
        self.finished = True
        self._wake()

    def abort(self) -> None:
        """Mark the body as incomplete: the client disconnected, or the framing is malformed."""
        self._aborted = True
        self._wake()

    @property
    def is_full(self) -> bool:
        """Whether reading from the socket should pause."""
        return len(self._pieces) >= MAX_WAITING

    @property
    def is_awaited(self) -> bool:
        """Whether the reader waits for bytes from the client."""
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
        """The next piece, or None at the end. The caller owns it. Raises Incomplete if the client disconnected."""
        if self._on_first_read is not None:
            on_first_read, self._on_first_read = self._on_first_read, None
            on_first_read()
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
        if self._on_room is not None and not self.finished and len(self._pieces) < MAX_WAITING:
            self._on_room()
        return piece

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises TooLarge if it exceeds `limit`; with a Content-Length, before reading it."""
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
