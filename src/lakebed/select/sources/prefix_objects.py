"""The objects under a prefix for reading threads, listed and opened ahead by the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, Future
from typing import Final

from lakebed.core.errors import NoSuchKey, Unavailable
from lakebed.objects.listing import ListedObject, Lister, Listing
from lakebed.objects.model import Caller
from lakebed.objects.reading import ObjectReader

from ..execution.multi_object_scan import OpenedObject
from .object_bytes import open_bytes

_ATTEMPTS: Final = 4
"""Attempts to open an object that is replaced meanwhile."""

_PAGE: Final = 1000
_AHEAD: Final = 32
"""Number of objects to open ahead."""


class PrefixObjects:
    """Objects in key order, each in the version that is current when it is opened; empty ones are skipped."""

    def __init__(
        self,
        reader: ObjectReader,
        lister: Lister,
        caller: Caller,
        bucket: str,
        prefix: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._reader = reader
        self._lister = lister
        self._caller = caller
        self._bucket = bucket
        self._prefix = prefix
        self._loop = loop
        self._keys = self._list()
        self._lock = threading.Lock()
        self._opened: deque[OpenedObject] = deque()
        self._ahead: Future[list[OpenedObject]] | None = None
        self._closed = False

    def take(self) -> OpenedObject | None:
        """The next object; None after the last. Raises NoSuchBucket, AccessDenied, …; Unavailable after `close`."""
        with self._lock:
            if self._closed:
                raise Unavailable("the select was stopped")
            if not self._opened:
                self._ahead = self._ahead or self._fetch()
                try:
                    self._opened.extend(self._ahead.result())
                except CancelledError as error:
                    raise Unavailable("the select was stopped") from error
                self._ahead = self._fetch() if self._opened else None
            return self._opened.popleft() if self._opened else None

    def close(self) -> None:
        """Close the objects that were not taken."""
        self._closed = True
        ahead = self._ahead
        if ahead is not None:
            ahead.cancel()  # a waiting `take` raises and releases the lock
        with self._lock:
            while self._opened:
                self._opened.popleft().source.close()
            if self._ahead is not None and self._ahead.done():
                self._close_late(self._ahead)  # opened before and never taken

    def _fetch(self) -> Future[list[OpenedObject]]:
        future = asyncio.run_coroutine_threadsafe(self._open_some(), self._loop)
        future.add_done_callback(self._close_late)
        return future

    def _close_late(self, future: Future[list[OpenedObject]]) -> None:
        """Close objects that were opened after `close`."""
        if self._closed and not future.cancelled() and future.exception() is None:
            for opened in future.result():
                opened.source.close()

    async def _open_some(self) -> list[OpenedObject]:
        """The next objects; empty only after the last."""
        while keys := [key async for key in _some(self._keys, _AHEAD)]:
            opening = [asyncio.ensure_future(self._open(key)) for key in keys]
            try:
                found = await asyncio.gather(*opening)
            except BaseException:
                for each in opening:
                    each.cancel()
                for opened in await asyncio.gather(*opening, return_exceptions=True):
                    if isinstance(opened, OpenedObject):
                        opened.source.close()
                raise
            if some := [opened for opened in found if opened is not None]:
                return some
        return []

    async def _open(self, key: str) -> OpenedObject | None:
        for _ in range(_ATTEMPTS):
            try:
                found = await self._reader.get(self._caller, self._bucket, key)
            except NoSuchKey:
                break  # deleted since the listing
            assert found.source is not None  # noqa: S101  # `get` opens the content
            try:
                return OpenedObject(key, await open_bytes(found.source, self._loop))
            except NoSuchKey:
                continue  # replaced between reading its row and opening its file
        return None

    async def _list(self) -> AsyncIterator[str]:
        after = ""
        while True:
            page: Listing[ListedObject] = await self._lister.objects(
                self._caller, self._bucket, prefix=self._prefix, delimiter="", after=after, limit=_PAGE
            )
            for entry in page.entries:
                if entry.size and not entry.key.endswith("/"):
                    yield entry.key
            if not page.truncated or not page.entries:
                return
            after = page.entries[-1].key


async def _some(keys: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    for _ in range(count):
        key = await anext(keys, None)
        if key is None:
            return
        yield key
