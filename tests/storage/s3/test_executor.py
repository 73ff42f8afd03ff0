"""Blocking requests from async code."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from lakebed.storage.credentials import Credentials
from lakebed.storage.s3.error_mapping import StoreOperation
from lakebed.storage.s3.executor import S3Executor
from lakebed.storage.s3.request import Reply, S3ClientRequest

from .scripted_s3 import Keyring

REQUEST = S3ClientRequest(StoreOperation.GET, "k")


class SlowBody:
    def __init__(self) -> None:
        self.closed = Event()

    def read(self, size: int | None = None) -> bytes:
        return b""

    def close(self) -> None:
        self.closed.set()


class GatedClient:
    """A client whose responses wait for a gate."""

    def __init__(self) -> None:
        self.entered = Event()
        self.gate = Event()
        self.body = SlowBody()
        self.signers: list[Credentials] = []
        self.closed = False

    def call(self, request: S3ClientRequest, signer: Credentials) -> Reply:
        self.signers.append(signer)
        self.entered.set()
        assert self.gate.wait(30)
        return {"Body": self.body}

    def close(self) -> None:
        self.closed = True


async def test_body_for_a_cancelled_caller_is_closed() -> None:
    client = GatedClient()
    calls = S3Executor(client, Keyring(), 1)
    caller = asyncio.create_task(calls.call(REQUEST))
    assert await asyncio.to_thread(client.entered.wait, 30)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not client.body.closed.is_set()
    client.gate.set()
    assert await asyncio.to_thread(client.body.closed.wait, 30)
    await calls.close()


async def test_requests_beyond_the_limit_wait_for_a_thread() -> None:
    client = GatedClient()
    calls = S3Executor(client, Keyring(), 2)
    callers = [asyncio.create_task(calls.call(REQUEST)) for _ in range(6)]
    assert await asyncio.to_thread(client.entered.wait, 30)
    await asyncio.sleep(0)
    assert len(client.signers) <= 2
    client.gate.set()
    await asyncio.gather(*callers)
    assert len(client.signers) == 6
    await calls.close()


async def test_close_waits_for_running_requests_and_is_idempotent() -> None:
    client = GatedClient()
    calls = S3Executor(client, Keyring(), 1)
    caller = asyncio.create_task(calls.call(REQUEST))
    assert await asyncio.to_thread(client.entered.wait, 30)
    closing = asyncio.create_task(calls.close())
    client.gate.set()
    await closing
    assert (await caller)["Body"] is client.body
    assert client.closed
    await calls.close()


async def test_body_is_closed_even_after_the_threads_have_stopped() -> None:
    client = GatedClient()
    calls = S3Executor(client, Keyring(), 1)
    await calls.close()
    calls.close_later(client.body)
    assert client.body.closed.is_set()
