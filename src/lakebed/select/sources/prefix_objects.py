"""The objects under a prefix, for threads that read them: listed and opened by the event loop, some ahead."""

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
"""How often an object is looked up again that is replaced while it is opened."""

_PAGE: Final = 1000
_AHEAD: Final = 32
"""Objects that are opened at a time, before they are asked for."""


class PrefixObjects:
    """Objects in the order of their keys, each as it is when it is opened; those without a byte are passed over."""

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
        self._turn = threading.Lock()
        self._held: deque[OpenedObject] = deque()
        self._ahead: Future[list[OpenedObject]] | None = None
        self._closed = False

    def take(self) -> OpenedObject | None:
        """The next object; None after the last. Raises NoSuchBucket, AccessDenied, …; Unavailable after `close`."""
        with self._turn:
            if self._closed:
                raise Unavailable("the select was stopped")
            if not self._held:
                self._ahead = self._ahead or self._fetch()
                try:
                    self._held.extend(self._ahead.result())
                except CancelledError as error:
                    raise Unavailable("the select was stopped") from error
                self._ahead = self._fetch() if self._held else None
            return self._held.popleft() if self._held else None

    def close(self) -> None:
        """Close what nobody has taken."""
        self._closed = True
        ahead = self._ahead
        if ahead is not None:
            ahead.cancel()  # whoever waits for it is told, and lets go
        with self._turn:
            while self._held:
                self._held.popleft().source.close()
            if self._ahead is not None and self._ahead.done():
                self._forget_late(self._ahead)  # opened before this, and asked for by nobody

    def _fetch(self) -> Future[list[OpenedObject]]:
        future = asyncio.run_coroutine_threadsafe(self._open_some(), self._loop)
        future.add_done_callback(self._forget_late)
        return future

    def _forget_late(self, future: Future[list[OpenedObject]]) -> None:
        """What is opened when nobody wants it any more."""
        if self._closed and not future.cancelled() and future.exception() is None:
            for supplied in future.result():
                supplied.source.close()

    async def _open_some(self) -> list[OpenedObject]:
        """The next few; none only after the last."""
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
                break  # it was there when it was listed
            assert found.source is not None  # noqa: S101  # a GET has one
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
