"""Frames: their order, and limits on their size, number, memory and time."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from lakebed.objects.model import Caller
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Backpressure, CallResponse
from lakebed.wire.fluss.transport import connection
from lakebed.wire.fluss.transport.connection import MAX_CALLS, MAX_UNAUTHENTICATED_FRAME_BYTES
from lakebed.wire.fluss.transport.frame_reader import FRAME_BYTES_PER_SECOND, FRAME_SECONDS
from lakebed.wire.fluss.transport.listener import STALLED_SECONDS

from .test_connection import (
    ECHO,
    HELD,
    LIST,
    MAX_FRAME,
    MAX_HELD,
    SMALL,
    Client,
    Server,
    client,
    connect,
    frame,
    left_at,
    served,
    server,
)

__all__ = ["client", "served", "server"]

TOO_LARGE = 13


def refused(response: tuple[int, int, bytes]) -> tuple[int, int, str]:
    """The request id, the error code, and the message of an error response."""
    kind, number, message = response
    assert kind == 1
    failure = pb.Failure.FromString(message)
    return number, failure.error_code, failure.error_message


def only(server: Server) -> Any:  # Any: tests use private attributes
    """The only connection."""
    (found,) = server.listener._open
    return found


# -- frames that are too large --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [MAX_FRAME + 1, 2**31 - 1])
async def test_oversized_frame_is_refused_with_the_limit_and_ends_the_connection(client: Client, length: int) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ihhi", length, HELD, 0, 77))
    number, code, message = refused(await client.response())
    assert (number, code) == (77, TOO_LARGE)
    assert f"limit={MAX_FRAME}" in message
    assert "client.writer.batch-size" in message
    assert await client.is_closed()


async def test_unauthenticated_client_cannot_send_large_frames(client: Client) -> None:
    client.writer.write(struct.pack(">ihhi", MAX_UNAUTHENTICATED_FRAME_BYTES + 1, 1038, 0, 5))
    number, code, message = refused(await client.response())
    assert (number, code) == (5, TOO_LARGE)
    assert "authenticate first" in message
    assert await client.is_closed()


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 7])
async def test_invalid_frame_length_closes_the_connection(client: Client, length: int) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ihhi", length, ECHO, 0, 1))
    assert await client.is_closed()


async def test_client_that_sends_a_whole_oversized_frame_first_gets_the_error(server: Server, client: Client) -> None:
    await client.log_in()
    # More than both socket buffers hold: the server has to read it, and discards it.
    large = struct.pack(">ihhi", 32 * MAX_FRAME, HELD, 0, 9) + bytes(32 * MAX_FRAME - 8)
    client.writer.write(large + frame(ECHO, b"after it", number=10))
    await client.writer.drain()
    while client.writer.transport.get_write_buffer_size():
        await asyncio.sleep(0.01)
    assert server.listener.budget.held_bytes == 0
    assert refused(await client.response())[:2] == (9, TOO_LARGE)
    assert await client.is_closed()
    client.writer.close()
    while server.listener.count:
        await asyncio.sleep(0)


async def test_oversized_write_gets_an_error_per_bucket(server: Server, client: Client) -> None:
    await client.log_in()
    request = pb.ProduceLogRequest(acks=-1, table_id=1, timeout_ms=1000)
    for bucket in range(3):
        request.buckets.add(partition_id=bucket + 7, bucket_id=bucket, records=bytes(MAX_FRAME))
    sent = frame(ECHO, request.SerializeToString(), number=4)
    client.writer.write(sent[:-1])
    await client.writer.drain()
    while client.writer.transport.get_write_buffer_size():
        await asyncio.sleep(0.01)
    later = asyncio.get_running_loop().time() + FRAME_SECONDS + len(sent) / FRAME_BYTES_PER_SECOND
    only(server).last_activity = later
    assert await left_at(server, later - 10) == 1, "the client has the time for a frame of this size"
    client.writer.write(sent[-1:] + frame(ECHO, b"after it", number=5))
    kind, number, message = await client.response()
    assert (kind, number) == (0, 4)
    response = pb.ProduceLogResponse.FromString(message)
    assert [(each.partition_id, each.bucket_id, each.error_code) for each in response.buckets] == [
        (7, 0, TOO_LARGE),
        (8, 1, TOO_LARGE),
        (9, 2, TOO_LARGE),
    ]
    assert f"limit={MAX_FRAME}" in response.buckets[0].error_message
    assert await client.is_closed()


async def test_oversized_frame_is_refused_once_its_header_is_complete(server: Server, client: Client) -> None:
    await client.log_in()
    head = struct.pack(">ihhi", MAX_FRAME + 1, HELD, 0, 6)
    for piece in (head[:2], head[2:4], head[4:11]):
        client.writer.write(piece)
        await client.writer.drain()
        await asyncio.sleep(0.01)
    assert server.listener.count == 1
    client.writer.write(head[11:])
    assert refused(await client.response())[:2] == (6, TOO_LARGE)
    client.writer.close()
    while server.listener.count:
        await asyncio.sleep(0)


async def test_client_that_never_completes_the_header_is_disconnected(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ih", MAX_FRAME + 1, HELD))
    while not only(server).awaits_client:
        await asyncio.sleep(0.01)
    server.listener.close_stalled(asyncio.get_running_loop().time() + STALLED_SECONDS + 10)
    assert await client.is_closed()


async def test_calls_before_an_oversized_frame_are_still_answered(server: Server, client: Client) -> None:
    await client.log_in()
    client.send(HELD, number=1)
    client.writer.write(struct.pack(">ihhi", MAX_FRAME + 1, HELD, 0, 2))
    assert refused(await client.response())[:2] == (2, TOO_LARGE)
    client.send(ECHO, b"not handled", number=3)
    server.release.set()
    assert await client.response() == (0, 1, b"released")
    assert await client.is_closed()


async def test_client_that_keeps_sending_an_oversized_frame_is_disconnected(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ihhi", 2**31 - 1, HELD, 0, 1))
    await client.response()
    held, now = only(server), asyncio.get_running_loop().time()
    held.last_activity = now + FRAME_SECONDS  # the client keeps sending
    assert await left_at(server, now + FRAME_SECONDS - 10) == 1
    server.listener.close_stalled(now + FRAME_SECONDS + 10)
    while server.listener.count:
        await asyncio.sleep(0)


# -- number and memory ----------------------------------------------------------------------------------------------


async def test_calls_in_flight_per_connection_are_limited(served: tuple[Server, int], client: Client) -> None:
    server = served[0]
    await client.log_in()
    other = await connect(served[1])
    await other.log_in()
    # In one piece: all of them fit into the scratch buffer.
    client.writer.write(b"".join(frame(HELD, number=number) for number in range(5000)))
    while server.started < MAX_CALLS:
        await asyncio.sleep(0)
    for _ in range(20):
        assert (await other.call(ECHO, b"quick"))[2] == b"quick"
    assert server.started == MAX_CALLS
    assert await left_at(server, asyncio.get_running_loop().time() + 5 * STALLED_SECONDS) == 2, (
        "the server waits for its calls, not for the client"
    )
    server.release.set()
    responses = [await client.response() for _ in range(5000)]
    assert sorted(number for _, number, _ in responses) == list(range(5000))
    other.writer.close()


async def test_half_close_takes_effect_after_the_waiting_frames(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(b"".join(frame(HELD, number=number) for number in range(3 * MAX_CALLS)))
    client.writer.write_eof()
    while server.started < MAX_CALLS:
        await asyncio.sleep(0)
    server.release.set()
    responses = [await client.response() for _ in range(3 * MAX_CALLS)]
    assert sorted(number for _, number, _ in responses) == list(range(3 * MAX_CALLS))
    assert await client.is_closed()


async def test_waiting_frames_of_a_closed_connection_are_released(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(b"".join(frame(HELD, number=number) for number in range(3 * MAX_CALLS)))
    while server.started < MAX_CALLS:
        await asyncio.sleep(0)
    only(server).abort()
    server.release.set()
    while server.listener.count or server.listener.budget.held_bytes:
        await asyncio.sleep(0)
    assert server.started == MAX_CALLS


@pytest.mark.parametrize("most", [1, 2, 7])
async def test_frames_start_in_order_at_any_limit(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(connection, "MAX_CALLS", most)
    await client.log_in()
    order: list[int] = []
    in_flight, highest = 0, 0

    async def echo(caller: Caller, body: memoryview, version: int, backpressure: Backpressure) -> CallResponse:
        nonlocal in_flight, highest
        order.append(int.from_bytes(body[:4], "big"))
        in_flight += 1
        highest = max(highest, in_flight)
        for _ in range(order[-1] % 3):
            await asyncio.sleep(0)
        in_flight -= 1
        return [bytes(body[:4])]

    object.__setattr__(server.listener.calls[ECHO], "handle", echo)
    sizes = random.Random(most)
    bodies = [number.to_bytes(4, "big") + bytes(sizes.choice((0, 50, 3000, 400_000))) for number in range(300)]
    client.writer.write(b"".join(frame(ECHO, body, number=number) for number, body in enumerate(bodies)))
    assert sorted([(await client.response())[1] for _ in bodies]) == list(range(300))
    assert order == list(range(300))
    assert highest <= most


@pytest.mark.parametrize("seed", range(6))
async def test_all_calls_are_answered_at_any_limits(
    served: tuple[Server, int], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(connection, "MAX_CALLS", chance.choice((1, 3, 20)))
    monkeypatch.setattr(connection, "MAX_CALL_BYTES", chance.choice((1, 300_000, 64 * MAX_FRAME)))
    monkeypatch.setattr(connection, "_WRITE_HIGH_BYTES", chance.choice((1, 20_000, MAX_FRAME)))
    monkeypatch.setattr(served[0].listener.budget, "_limit", chance.choice((1, 500_000, MAX_HELD)))
    served[0].release.set()

    async def talk(to: Client, frames: list[bytes]) -> None:
        async def send() -> None:
            for at in range(0, len(joined), piece):
                to.writer.write(joined[at : at + piece])
                await to.writer.drain()

        joined, piece = b"".join(frames), chance.choice((5_000, 100_000, 10_000_000))
        sending = asyncio.create_task(send())
        numbers = [(await to.response())[1] for _ in frames]
        await sending
        assert sorted(numbers) == list(range(len(frames)))

    both: list[Client] = []
    for _ in range(2):
        both.append(await connect(served[1]))
        await both[-1].log_in()  # before the next connection, which would evict it
    async with asyncio.timeout(60), asyncio.TaskGroup() as talks:
        for each in both:
            frames = []
            for number in range(400):
                key = chance.choice((LIST, ECHO, ECHO, HELD, SMALL))
                size = 0 if key == LIST else chance.choice((0, 10, 10, 1000, 20_000, 300_000))
                frames.append(frame(key, bytes(size), number=number))
            talks.create_task(talk(each, frames))
    assert served[0].listener.budget.held_bytes == 0
    for each in both:
        each.writer.close()


# -- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, MAX_FRAME - 8])
async def test_slow_frame_is_disconnected_after_its_time_limit(server: Server, client: Client, size: int) -> None:
    await client.log_in()
    client.writer.write(frame(ECHO, bytes(size))[:50])
    while not only(server).awaits_client:
        await asyncio.sleep(0.01)
    held, now = only(server), asyncio.get_running_loop().time()
    allowed = FRAME_SECONDS + size / FRAME_BYTES_PER_SECOND
    held.last_activity = now + allowed  # a byte has just arrived
    assert await left_at(server, now + allowed - 10) == 1
    server.listener.close_stalled(now + allowed + 10)
    assert await client.is_closed()


async def test_time_of_a_frame_starts_with_its_length_bytes(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(frame(ECHO, b"whole") + frame(ECHO, b"not whole")[:2])
    await client.response()
    held, now = only(server), asyncio.get_running_loop().time()
    held.last_activity = now + FRAME_SECONDS
    client.writer.write(frame(ECHO, b"not whole")[2:3])
    while len(held._rest) < 3:
        await asyncio.sleep(0.01)
    assert await left_at(server, now + FRAME_SECONDS - 10) == 1
    held.last_activity = now + FRAME_SECONDS
    server.listener.close_stalled(now + FRAME_SECONDS + 10)
    assert await client.is_closed()


async def test_frames_that_wait_for_the_budget_are_not_late(served: tuple[Server, int], client: Client) -> None:
    server, port = served
    await client.log_in()
    body, held = bytes(900_000), 3
    client.writer.write(b"".join(frame(HELD, body, number=number) for number in range(held)))
    while server.started < held:
        await asyncio.sleep(0.01)
    assert server.listener.budget.is_full
    other = await connect(port)
    await other.log_in()
    other.writer.write(frame(ECHO, body, number=9))
    (waiting,) = (each for each in server.listener._open if each.is_idle)
    while not waiting._waits_for_budget:
        await asyncio.sleep(0.01)
    later = asyncio.get_running_loop().time() + 100 * FRAME_SECONDS
    assert await left_at(server, later) == 2
    # The time starts again when the socket is read.
    waiting._paused_at -= 100 * FRAME_SECONDS
    waiting._frame_since -= 100 * FRAME_SECONDS
    server.release.set()
    assert await other.response() == (0, 9, body)
    for _ in range(held):
        await client.response()
    assert await left_at(server, asyncio.get_running_loop().time() + 10) == 2
    other.writer.close()
