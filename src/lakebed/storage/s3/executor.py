"""Runs blocking S3 requests from async code, in a bounded thread pool.

A request whose credentials the store reports as expired is sent once more with newer ones. This is safe for conditional
writes too, because the store has only checked the credentials. All other retries are those of the retry wrapper.

Cancelling a caller does not stop its request, because S3 cannot cancel one. Its result is dropped.
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
        """The response. The caller closes its body, if it has one."""
        return await self.call_then(request, lambda reply: reply, drop=_drop_body)

    async def call_then(
        self, request: S3ClientRequest, finish: Callable[[Reply], T], *, drop: Callable[[T], None] | None = None
    ) -> T:
        """The result of `finish` on the response, in the same thread. `drop` releases it if the caller is cancelled."""
        signer = await self._credentials.credentials()
        try:
            return await self.run(lambda: finish(self._client.call(request, signer)), drop)
        except CredentialsExpired:
            newer = await self._credentials.credentials(rejected=signer)
            return await self.run(lambda: finish(self._client.call(request, newer)), drop)

    async def run(self, work: Callable[[], T], drop: Callable[[T], None] | None = None) -> T:
        """The result of `work` in one of the threads."""
        future = self._threads.submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if drop is not None:
                future.add_done_callback(lambda done: _drop_result(done, drop))
            raise

    def close_later(self, body: S3Body) -> None:
        """Close a body in the background, after a read that may still run."""
        try:
            self._threads.submit(body.close)
        except RuntimeError:  # the threads have stopped, so none is reading
            body.close()

    async def close(self) -> None:
        """Wait for running requests, then stop the threads and close the connections. Idempotent."""
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
