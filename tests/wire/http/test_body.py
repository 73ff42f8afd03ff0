from __future__ import annotations

import asyncio

import pytest

from lakebed.core.errors import Incomplete, TooLarge
from lakebed.wire.http.body import MAX_WAITING, RequestBody


async def test_next_chunk_returns_pieces_in_order_and_then_none() -> None:
    body = RequestBody(5)
    body.push(b"ab")
    body.push(memoryview(b"cde"))
    body.finish()
    assert [await body.next_chunk(), await body.next_chunk(), await body.next_chunk()] == [b"ab", b"cde", None]
    assert body.received == 5
    assert await body.next_chunk() is None


async def test_reader_waits_for_bytes_and_for_the_end() -> None:
    body = RequestBody(None, chunked=True)
    reading = asyncio.create_task(body.read(100))
    await asyncio.sleep(0)
    assert body.is_awaited
    for piece in (b"one", b"two"):
        body.push(piece)
        await asyncio.sleep(0)
    assert not reading.done()
    body.finish()
    assert await reading == b"onetwo"
    assert not body.is_awaited


async def test_bytes_before_a_disconnect_are_read_before_incomplete_is_raised() -> None:
    body = RequestBody(5)
    body.push(b"ab")
    body.abort()
    assert await body.next_chunk() == b"ab"
    with pytest.raises(Incomplete, match="received=2 expected=5"):
        await body.next_chunk()


async def test_disconnect_raises_incomplete_in_a_waiting_reader() -> None:
    body = RequestBody(5)
    reading = asyncio.create_task(body.read(5))
    await asyncio.sleep(0)
    body.abort()
    with pytest.raises(Incomplete):
        await reading


async def test_body_can_be_read_after_a_cancelled_read() -> None:
    body = RequestBody(2)
    reading = asyncio.create_task(body.read(5))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    body.push(b"ab")
    body.finish()
    assert await body.read(5) == b"ab"


async def test_content_length_over_the_limit_is_rejected_before_reading() -> None:
    sent: list[str] = []
    body = RequestBody(11)
    body.attach(lambda: sent.append("continue"), lambda: None)
    with pytest.raises(TooLarge, match="size=11 limit=10"):
        await body.read(10)
    assert sent == []


async def test_chunked_body_over_the_limit_is_rejected() -> None:
    body = RequestBody(None, chunked=True)
    body.push(b"x" * 11)
    with pytest.raises(TooLarge):
        await body.read(10)


async def test_only_the_first_read_sends_100_continue() -> None:
    sent: list[str] = []
    body = RequestBody(2)
    body.attach(lambda: sent.append("continue"), lambda: None)
    assert body.awaits_continue
    body.push(b"a")
    body.push(b"b")
    await body.next_chunk()
    await body.next_chunk()
    assert sent == ["continue"]
    assert not body.awaits_continue


async def test_reading_resumes_only_when_a_buffer_is_free() -> None:
    resumed_in: list[int] = []
    reads = 0
    body = RequestBody(100)
    body.attach(None, lambda: resumed_in.append(reads))
    for _ in range(MAX_WAITING + 2):
        body.push(b"x")
    assert body.is_full
    for _ in range(MAX_WAITING + 2):
        reads += 1
        await body.next_chunk()
    assert resumed_in == list(range(3, MAX_WAITING + 3))


async def test_empty_body_is_finished_from_the_start() -> None:
    assert await RequestBody(0).read(0) == b""
    assert not RequestBody(None, chunked=True).finished
