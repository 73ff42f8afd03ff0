"""Base class of targets with a persistent connection, which is opened on first use and after a connection loss.

Concurrent senders share one connection attempt. A replaced connection is closed once its last user is done. New
certificate files are loaded before the next message, on a new connection; if they are invalid, the existing connection
stays in use and `check` reports the error.
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
"""The timeout of an attempt, including the connection."""

_CLOSE_SECONDS: Final = 2.0


class _SharedConnection(Generic[C]):
    """A connection with a reference count."""

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.users = 0
        self.is_retired = False
        self.is_proven = False
        """Whether an attempt has succeeded on it."""


class ConnectedTarget(ABC, Generic[C]):
    """Implements `EventTarget`. Subclasses connect, deliver and disconnect, and classify the library's errors."""

    max_in_flight: int = 1

    def __init__(
        self,
        where: str,
        *,
        tls: TlsFiles | None = None,
        secrets: tuple[str, ...] = (),
        deadline_seconds: float = DELIVERY_SECONDS,
    ) -> None:
        """`where` names the destination in errors; `secrets` are redacted in them."""
        self._where = where
        self._tls_files = tls
        self._watch = TlsFileWatch(tls or TlsFiles())
        self._secrets = secrets
        self._deadline = deadline_seconds
        self._current: _SharedConnection[C] | None = None
        self._opening: asyncio.Task[_SharedConnection[C]] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._tls_failure: Unavailable | None = None
        self._is_closed = False

    async def send(self, message: EventMessage) -> None:
        """Return once the destination has acknowledged the message. Raises Unavailable, Undeliverable."""
        await self._try(message)

    async def check(self) -> None:
        """Return if the destination would accept a message now. Raises Unavailable."""
        await self._try(None)
        if self._tls_failure is not None:
            raise self._tls_failure

    async def close(self) -> None:
        """Disconnect. Idempotent."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._current is not None:
            self._retire(self._current)
        if self._closing:
            await asyncio.wait(set(self._closing))

    # -- implemented by subclasses --------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> C:
        """Connect and authenticate. Must close a partial connection on failure."""

    @abstractmethod
    async def _shut(self, connection: C) -> None:
        """Disconnect, in any state of the connection."""

    @abstractmethod
    async def _deliver(self, connection: C, message: EventMessage) -> None:
        """Return once the destination has acknowledged the message."""

    @abstractmethod
    async def _probe(self, connection: C) -> None:
        """Return if the destination would accept a message. May raise Unavailable."""

    def _fault(self, error: Exception) -> Fault:
        """Classify an error of the library. Unknown errors require a new connection."""
        return Fault.CONNECTION

    # -- attempts -------------------------------------------------------------------------------------------------

    async def _try(self, message: EventMessage | None) -> None:
        try:
            async with asyncio.timeout(self._deadline):
                if await self._attempt(message, is_last=False):
                    return
                # A destination that closed an idle connection is detected only by sending: retry once. The message
                # has the same id.
                await self._attempt(message, is_last=True)
        except TimeoutError:
            raise Unavailable(f"delivery timed out. target={self._where} seconds={self._deadline:g}") from None

    async def _attempt(self, message: EventMessage | None, *, is_last: bool) -> bool:
        """Whether the attempt succeeded; False if it should be repeated on a new connection."""
        async with self._use() as shared:
            was_proven = shared.is_proven
            try:
                work = self._probe(shared.connection) if message is None else self._deliver(shared.connection, message)
                await work
            except LakebedError:
                raise
            except Exception as error:
                fault = self._fault(error)
                if fault in (Fault.CONNECTION, Fault.MESSAGE_AND_CONNECTION):
                    self._retire(shared)
                if fault is Fault.CONNECTION and was_proven and not is_last:
                    return False
                raise self._failure(error, fault) from None  # the library's error may contain the message
            except BaseException:
                self._retire(shared)  # timed out or cancelled before the response
                raise
            shared.is_proven = True
            return True

    def _failure(self, error: Exception, fault: Fault) -> LakebedError:
        reason = describe_error(error, self._secrets)
        if fault in (Fault.MESSAGE, Fault.MESSAGE_AND_CONNECTION):
            return Undeliverable(f"target rejected the message. target={self._where} reason={reason}")
        return Unavailable(f"target does not accept messages. target={self._where} reason={reason}")

    # -- the connection -------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _use(self) -> AsyncIterator[_SharedConnection[C]]:
        shared = await self._connected()
        shared.users += 1
        try:
            yield shared
        finally:
            shared.users -= 1
            if shared.is_retired and not shared.users:
                self._begin_shutting(shared.connection)

    async def _connected(self) -> _SharedConnection[C]:
        if self._is_closed:
            raise Unavailable(f"the target is closed. target={self._where}")
        if self._current is not None and not self._is_outdated():
            return self._current
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        try:
            # Shielded: cancelling one sender must not cancel the shared attempt.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise Unavailable(f"the target is closed. target={self._where}") from None
            raise

    def _is_outdated(self) -> bool:
        """Whether the certificate files have changed and are valid."""
        if self._tls_files is None or (state := self._watch.check()) is TlsFileState.UNTOUCHED:
            return False
        self._tls_failure = None
        if state is TlsFileState.SAME:
            return False
        try:
            self._tls_files.context()
        except Unavailable as error:
            self._tls_failure = error
            return False
        return True

    async def _connect(self) -> _SharedConnection[C]:
        try:
            self._watch.remember()  # before reading the files, so that concurrent changes are detected
            async with asyncio.timeout(self._deadline):
                shared = _SharedConnection(await self._open())
        except LakebedError:
            raise
        except TimeoutError:
            raise Unavailable(f"connection timed out. target={self._where} seconds={self._deadline:g}") from None
        except Exception as error:
            reason = describe_error(error, self._secrets)
            raise Unavailable(f"cannot connect. target={self._where} reason={reason}") from None
        self._tls_failure = None
        if self._current is not None:
            self._retire(self._current)
        self._current = shared
        return shared

    def _opened(self, opening: asyncio.Task[_SharedConnection[C]]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # retrieved, in case all senders were cancelled

    def _retire(self, shared: _SharedConnection[C]) -> None:
        if shared.is_retired:
            return
        shared.is_retired = True
        if self._current is shared:
            self._current = None
        if not shared.users:
            self._begin_shutting(shared.connection)

    def _begin_shutting(self, connection: C) -> None:
        """Close a connection in the background; `close` waits for it."""
        task = asyncio.create_task(self._shut_in_time(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _shut_in_time(self, connection: C) -> None:
        with contextlib.suppress(Exception):  # the connection is not used again
            await _within(_CLOSE_SECONDS, self._shut(connection))


async def _within(seconds: float, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work
