"""Blocking S3 requests from async code: a bounded pool of threads, one generation of keys a request.

A request whose keys the store calls expired is sent once more with newer ones: the store has looked at the keys and
nothing else, so this holds for conditional writes too. All other retries are the retry wrapper's.

A cancelled caller leaves its request running in its thread: S3 cannot take one back. What it brings is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lakebed.core.errors import CredentialsExpired

from ..credentials import CredentialProvider
from .request import Reply, S3Body, S3Client, S3ClientRequest

T = TypeVar("T")


class S3Executor:
    """Sends requests. Owns the client, the threads and the credentials."""

    def __init__(self, client: S3Client, credentials: CredentialProvider, max_concurrency: int) -> None:
        self._client = client
        self._credentials = credentials
        self._threads = ThreadPoolExecutor(max_concurrency, thread_name_prefix="s3")

    async def call(self, request: S3ClientRequest) -> Reply:
        """The store's answer. Its body, if it has one, is the caller's to close."""
        return await self.call_and(request, lambda reply: reply, drop=_drop_body)

    async def call_and(
        self, request: S3ClientRequest, finish: Callable[[Reply], T], *, drop: Callable[[T], None] | None = None
    ) -> T:
        """What `finish` makes of the answer, in the same thread. `drop` frees it when nobody waits any more."""
        signer = await self._credentials.credentials()
        try:
            return await self.run(lambda: finish(self._client.call(request, signer)), drop)
        except CredentialsExpired:
            newer = await self._credentials.credentials(rejected=signer)
            return await self.run(lambda: finish(self._client.call(request, newer)), drop)

    async def run(self, work: Callable[[], T], drop: Callable[[T], None] | None = None) -> T:
        """What `work` returns, from one of the threads."""
        future = self._threads.submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if drop is not None:
                future.add_done_callback(lambda done: _drop_result(done, drop))
            raise

    def close_later(self, body: S3Body) -> None:
        """Close a body that a thread may still be reading: after it, and without anybody waiting."""
        try:
            self._threads.submit(body.close)
        except RuntimeError:  # the threads are gone, so none is reading
            body.close()

    async def close(self) -> None:
        """Wait for requests under way, then release threads and connections. Idempotent."""
        await self._credentials.close()
        await asyncio.to_thread(self._threads.shutdown)
        with contextlib.suppress(RuntimeError):
            self._client.close()


def _drop_result(done: Future[T], drop: Callable[[T], None]) -> None:
    if not done.cancelled() and done.exception() is None:
        drop(done.result())


def _drop_body(reply: Reply) -> None:
    body: S3Body | None = reply.get("Body")
    if body is not None:
        body.close()
