"""A target with a connection that stays open: opened when first used, and again after it was lost.

Whoever sends while nobody is connected waits for one attempt that all share. A connection that others still use when it
is replaced is closed after the last of them. Certificates that were replaced on disk lead to a new connection before
the next message; if they are no good, what is connected stays, and the failure is told by `check`.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from typing import Final, Generic, TypeVar

from lakebed.core.errors import LakebedError, Unavailable, Undeliverable
from lakebed.net.tls import TlsFiles, TlsFileState, TlsFileWatch

from .failures import Fault, describe_error
from .seam import EventMessage

C = TypeVar("C")
T = TypeVar("T")

DELIVERY_SECONDS: Final = 30.0
"""The most that one attempt takes, connecting included."""

_CLOSE_SECONDS: Final = 2.0


class _Lease(Generic[C]):
    """A connection, and how many use it."""

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.users = 0
        self.is_retired = False
        self.is_tried = False
        """Whether anything came through it."""


class ConnectedTarget(ABC, Generic[C]):
    """Implements `Target`. Subclasses say how to connect, deliver and hang up, and what the library's errors mean."""

    max_in_flight: int = 1

    def __init__(
        self,
        where: str,
        *,
        tls: TlsFiles | None = None,
        secrets: tuple[str, ...] = (),
        deadline_seconds: float = DELIVERY_SECONDS,
    ) -> None:
        """`where` is told in errors; `secrets` are kept out of them."""
        self._where = where
        self._tls_files = tls
        self._watch = TlsFileWatch(tls or TlsFiles())
        self._secrets = secrets
        self._deadline = deadline_seconds
        self._lease: _Lease[C] | None = None
        self._opening: asyncio.Task[_Lease[C]] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._tls_failure: Unavailable | None = None
        self._is_closed = False

    # -- the seam -------------------------------------------------------------------------------------------------

    async def send(self, message: EventMessage) -> None:
        """Return when the other side has it. Raises Unavailable, Undeliverable."""
        await self._try(message)

    async def check(self) -> None:
        """Return if a message would be taken now. Raises Unavailable."""
        await self._try(None)
        if self._tls_failure is not None:
            raise self._tls_failure

    async def close(self) -> None:
        """Hang up. Idempotent."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._lease is not None:
            self._retire(self._lease)
        if self._closing:
            await asyncio.wait(set(self._closing))

    # -- what a kind of target says -------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> C:
        """Connect, and show who is asking. What is half open when it fails is closed by it."""

    @abstractmethod
    async def _shut(self, connection: C) -> None:
        """Hang up, whatever state the connection is in."""

    @abstractmethod
    async def _deliver(self, connection: C, message: EventMessage) -> None:
        """Return when the other side has it."""

    @abstractmethod
    async def _probe(self, connection: C) -> None:
        """Return if it would take a message. May raise Unavailable itself."""

    def _fault(self, error: Exception) -> Fault:
        """What an error of the library means. What nobody knows is a reason to connect anew."""
        return Fault.CONNECTION

    # -- attempts -------------------------------------------------------------------------------------------------

    async def _try(self, message: EventMessage | None) -> None:
        try:
            async with asyncio.timeout(self._deadline):
                if await self._attempt(message, is_last=False):
                    return
                # The other side closed the connection while nobody used it, which is found out only by sending. The
                # message has the same id the second time.
                await self._attempt(message, is_last=True)
        except TimeoutError:
            raise Unavailable(f"no answer in time. target={self._where} seconds={self._deadline:g}") from None

    async def _attempt(self, message: EventMessage | None, *, is_last: bool) -> bool:
        """Whether it came through. False: another connection may do better."""
        async with self._use() as lease:
            was_tried = lease.is_tried
            try:
                work = self._probe(lease.connection) if message is None else self._deliver(lease.connection, message)
                await work
            except LakebedError:
                raise
            except Exception as error:
                fault = self._fault(error)
                if fault in (Fault.CONNECTION, Fault.MESSAGE_AND_CONNECTION):
                    self._retire(lease)
                if fault is Fault.CONNECTION and was_tried and not is_last:
                    return False
                raise self._failure(error, fault) from None  # the library's error may quote what was sent
            except BaseException:
                self._retire(lease)  # timed out or cancelled amid a conversation
                raise
            lease.is_tried = True
            return True

    def _failure(self, error: Exception, fault: Fault) -> LakebedError:
        reason = describe_error(error, self._secrets)
        if fault in (Fault.MESSAGE, Fault.MESSAGE_AND_CONNECTION):
            return Undeliverable(f"the target refuses the message. target={self._where} reason={reason}")
        return Unavailable(f"the target does not take messages. target={self._where} reason={reason}")

    # -- the connection -------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _use(self) -> AsyncIterator[_Lease[C]]:
        lease = await self._current()
        lease.users += 1
        try:
            yield lease
        finally:
            lease.users -= 1
            if lease.is_retired and not lease.users:
                self._begin_shutting(lease.connection)

    async def _current(self) -> _Lease[C]:
        if self._is_closed:
            raise Unavailable(f"the target is closed. target={self._where}")
        if self._lease is not None and not self._is_outdated():
            return self._lease
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        try:
            # One who gives up must not take the attempt from the others.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise Unavailable(f"the target is closed. target={self._where}") from None
            raise

    def _is_outdated(self) -> bool:
        """Whether certificates were replaced by others that can be used."""
        if self._tls_files is None or (sight := self._watch.check()) is TlsFileState.UNTOUCHED:
            return False
        self._tls_failure = None
        if sight is TlsFileState.SAME:
            return False
        try:
            self._tls_files.context()
        except Unavailable as error:
            self._tls_failure = error
            return False
        return True

    async def _connect(self) -> _Lease[C]:
        try:
            # Before the files are read: what is written meanwhile is seen as a change.
            self._watch.remember()
            async with asyncio.timeout(self._deadline):
                lease = _Lease(await self._open())
        except LakebedError:
            raise
        except TimeoutError:
            raise Unavailable(f"cannot connect in time. target={self._where} seconds={self._deadline:g}") from None
        except Exception as error:
            reason = describe_error(error, self._secrets)
            raise Unavailable(f"cannot connect. target={self._where} reason={reason}") from None
        self._tls_failure = None
        if self._lease is not None:
            self._retire(self._lease)
        self._lease = lease
        return lease

    def _opened(self, opening: asyncio.Task[_Lease[C]]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # told to whoever waited; if all gave up, to nobody

    def _retire(self, lease: _Lease[C]) -> None:
        if lease.is_retired:
            return
        lease.is_retired = True
        if self._lease is lease:
            self._lease = None
        if not lease.users:
            self._begin_shutting(lease.connection)

    def _begin_shutting(self, connection: C) -> None:
        """Have it closed without waiting for that; `close` waits."""
        task = asyncio.create_task(self._shut_in_time(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _shut_in_time(self, connection: C) -> None:
        # What hinders a connection from being closed is of no use to anybody: it is not used again.
        with contextlib.suppress(Exception):
            await _within(_CLOSE_SECONDS, self._shut(connection))


async def _within(seconds: float, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work
