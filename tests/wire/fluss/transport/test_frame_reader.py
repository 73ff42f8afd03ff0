"""Frames: in their order, no more than there is room for, none that is too large, and none that takes for ever."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from lakebed.objects.model import Caller
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Answer, Backpressure
from lakebed.wire.fluss.transport import connection
from lakebed.wire.fluss.transport.connection import MAX_CALLS, MAX_STRANGE_FRAME_BYTES
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


def refused(answer: tuple[int, int, bytes]) -> tuple[int, int, str]:
    """Of which request, the number of the failure, and its words."""
    kind, number, message = answer
    assert kind == 1
    failure = pb.Failure.FromString(message)
    return number, failure.error_code, failure.error_message


def only(server: Server) -> Any:  # Any: what nobody but a test looks at
    """The one connection that there is."""
    (found,) = server.listening._open
    return found


# -- frames that are too large --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [MAX_FRAME + 1, 2**31 - 1])
async def test_a_frame_that_is_too_large_is_refused_in_words_and_is_the_last(client: Client, length: int) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ihhi", length, HELD, 0, 77))
    number, code, words = refused(await client.answer())
    assert (number, code) == (77, TOO_LARGE)
    assert f"limit={MAX_FRAME}" in words
    assert "smaller batches" in words
    assert await client.is_closed()


async def test_a_stranger_sends_no_large_frames(client: Client) -> None:
    client.writer.write(struct.pack(">ihhi", MAX_STRANGE_FRAME_BYTES + 1, 1038, 0, 5))
    number, code, words = refused(await client.answer())
    assert (number, code) == (5, TOO_LARGE)
    assert "who you are" in words
    assert await client.is_closed()


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 7])
async def test_what_is_no_frame_ends_the_connection(client: Client, length: int) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ihhi", length, ECHO, 0, 1))
    assert await client.is_closed()


async def test_who_sends_all_of_it_and_more_before_it_reads_finds_the_answer(server: Server, client: Client) -> None:
    await client.log_in()
    # More than the buffers of both sockets take: the server has to take it, though it holds nothing of it.
    large = struct.pack(">ihhi", 32 * MAX_FRAME, HELD, 0, 9) + bytes(32 * MAX_FRAME - 8)
    client.writer.write(large + frame(ECHO, b"after it", number=10))
    await client.writer.drain()
    while client.writer.transport.get_write_buffer_size():
        await asyncio.sleep(0.01)
    assert server.listening.budget.held_bytes == 0
    assert refused(await client.answer())[:2] == (9, TOO_LARGE)
    assert await client.is_closed()
    client.writer.close()
    while server.listening.count:
        await asyncio.sleep(0)


async def test_a_write_that_is_too_large_is_refused_bucket_by_bucket(server: Server, client: Client) -> None:
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
    assert await left_at(server, later - 10) == 1, "it has the time of a frame of its size"
    client.writer.write(sent[-1:] + frame(ECHO, b"after it", number=5))
    kind, number, message = await client.answer()
    assert (kind, number) == (0, 4)
    answer = pb.ProduceLogResponse.FromString(message)
    assert [(each.partition_id, each.bucket_id, each.error_code) for each in answer.buckets] == [
        (7, 0, TOO_LARGE),
        (8, 1, TOO_LARGE),
        (9, 2, TOO_LARGE),
    ]
    assert f"limit={MAX_FRAME}" in answer.buckets[0].error_message
    assert await client.is_closed()


async def test_its_number_is_waited_for_and_not_for_ever(server: Server, client: Client) -> None:
    await client.log_in()
    head = struct.pack(">ihhi", MAX_FRAME + 1, HELD, 0, 6)
    for piece in (head[:2], head[2:4], head[4:11]):
        client.writer.write(piece)
        await client.writer.drain()
        await asyncio.sleep(0.01)
    assert server.listening.count == 1
    client.writer.write(head[11:])
    assert refused(await client.answer())[:2] == (6, TOO_LARGE)
    client.writer.close()
    while server.listening.count:
        await asyncio.sleep(0)


async def test_who_never_sends_its_number_is_let_go_of(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ih", MAX_FRAME + 1, HELD))
    while not only(server).awaits_client:
        await asyncio.sleep(0.01)
    server.listening.close_stalled(asyncio.get_running_loop().time() + STALLED_SECONDS + 10)
    assert await client.is_closed()


async def test_what_was_asked_before_it_is_still_answered(server: Server, client: Client) -> None:
    await client.log_in()
    client.send(HELD, number=1)
    client.writer.write(struct.pack(">ihhi", MAX_FRAME + 1, HELD, 0, 2))
    assert refused(await client.answer())[:2] == (2, TOO_LARGE)
    client.send(ECHO, b"not begun", number=3)
    server.release.set()
    assert await client.answer() == (0, 1, b"released")
    assert await client.is_closed()


async def test_who_goes_on_sending_after_a_refusal_is_let_go_of(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(struct.pack(">ihhi", 2**31 - 1, HELD, 0, 1))
    await client.answer()
    held, now = only(server), asyncio.get_running_loop().time()
    held.last_activity = now + FRAME_SECONDS  # it goes on until then
    assert await left_at(server, now + FRAME_SECONDS - 10) == 1
    server.listening.close_stalled(now + FRAME_SECONDS + 10)
    while server.listening.count:
        await asyncio.sleep(0)


# -- as many as there is room for -----------------------------------------------------------------------------------


async def test_no_more_calls_are_begun_than_one_connection_may_have(served: tuple[Server, int], client: Client) -> None:
    server = served[0]
    await client.log_in()
    other = await connect(served[1])
    await other.log_in()
    # In one piece: they fit into what is read at once.
    client.writer.write(b"".join(frame(HELD, number=number) for number in range(5000)))
    while server.begun < MAX_CALLS:
        await asyncio.sleep(0)
    for _ in range(20):
        assert (await other.ask(ECHO, b"quick"))[2] == b"quick"
    assert server.begun == MAX_CALLS
    assert await left_at(server, asyncio.get_running_loop().time() + 5 * STALLED_SECONDS) == 2, (
        "it is not the client that is waited for"
    )
    server.release.set()
    answers = [await client.answer() for _ in range(5000)]
    assert sorted(number for _, number, _ in answers) == list(range(5000))
    other.writer.close()


async def test_an_end_of_sending_is_heard_after_what_waits_for_room(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(b"".join(frame(HELD, number=number) for number in range(3 * MAX_CALLS)))
    client.writer.write_eof()
    while server.begun < MAX_CALLS:
        await asyncio.sleep(0)
    server.release.set()
    answers = [await client.answer() for _ in range(3 * MAX_CALLS)]
    assert sorted(number for _, number, _ in answers) == list(range(3 * MAX_CALLS))
    assert await client.is_closed()


async def test_what_waits_for_room_goes_with_its_client(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(b"".join(frame(HELD, number=number) for number in range(3 * MAX_CALLS)))
    while server.begun < MAX_CALLS:
        await asyncio.sleep(0)
    only(server).abort()
    server.release.set()
    while server.listening.count or server.listening.budget.held_bytes:
        await asyncio.sleep(0)
    assert server.begun == MAX_CALLS


@pytest.mark.parametrize("most", [1, 2, 7])
async def test_frames_are_begun_in_their_order_whatever_the_limit(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(connection, "MAX_CALLS", most)
    await client.log_in()
    order: list[int] = []
    under_way, highest = 0, 0

    async def echo(caller: Caller, body: memoryview, version: int, room: Backpressure) -> Answer:
        nonlocal under_way, highest
        order.append(int.from_bytes(body[:4], "big"))
        under_way += 1
        highest = max(highest, under_way)
        for _ in range(order[-1] % 3):
            await asyncio.sleep(0)
        under_way -= 1
        return [bytes(body[:4])]

    object.__setattr__(server.listening.calls[ECHO], "answer", echo)
    sizes = random.Random(most)
    bodies = [number.to_bytes(4, "big") + bytes(sizes.choice((0, 50, 3000, 400_000))) for number in range(300)]
    client.writer.write(b"".join(frame(ECHO, body, number=number) for number, body in enumerate(bodies)))
    assert sorted([(await client.answer())[1] for _ in bodies]) == list(range(300))
    assert order == list(range(300))
    assert highest <= most


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_the_limits_everything_is_answered(
    served: tuple[Server, int], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(connection, "MAX_CALLS", chance.choice((1, 3, 20)))
    monkeypatch.setattr(connection, "MAX_CALL_BYTES", chance.choice((1, 300_000, 64 * MAX_FRAME)))
    monkeypatch.setattr(connection, "_WRITE_HIGH_BYTES", chance.choice((1, 20_000, MAX_FRAME)))
    monkeypatch.setattr(served[0].listening.budget, "_limit", chance.choice((1, 500_000, MAX_HELD)))
    served[0].release.set()

    async def talk(of: Client, asked: list[bytes]) -> None:
        async def send() -> None:
            for at in range(0, len(joined), piece):
                of.writer.write(joined[at : at + piece])
                await of.writer.drain()

        joined, piece = b"".join(asked), chance.choice((5_000, 100_000, 10_000_000))
        sending = asyncio.create_task(send())
        numbers = [(await of.answer())[1] for _ in asked]
        await sending
        assert sorted(numbers) == list(range(len(asked)))

    both: list[Client] = []
    for _ in range(2):
        both.append(await connect(served[1]))
        await both[-1].log_in()  # before the next comes: it would make way
    async with asyncio.timeout(60), asyncio.TaskGroup() as talks:
        for each in both:
            asked = []
            for number in range(400):
                key = chance.choice((LIST, ECHO, ECHO, HELD, SMALL))
                size = 0 if key == LIST else chance.choice((0, 10, 10, 1000, 20_000, 300_000))
                asked.append(frame(key, bytes(size), number=number))
            talks.create_task(talk(each, asked))
    assert served[0].listening.budget.held_bytes == 0
    for each in both:
        each.writer.close()


# -- as long as it may take -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, MAX_FRAME - 8])
async def test_a_frame_that_comes_byte_by_byte_is_not_waited_for_for_ever(
    server: Server, client: Client, size: int
) -> None:
    await client.log_in()
    client.writer.write(frame(ECHO, bytes(size))[:50])
    while not only(server).awaits_client:
        await asyncio.sleep(0.01)
    held, now = only(server), asyncio.get_running_loop().time()
    allowed = FRAME_SECONDS + size / FRAME_BYTES_PER_SECOND
    held.last_activity = now + allowed  # a byte came just then
    assert await left_at(server, now + allowed - 10) == 1
    server.listening.close_stalled(now + allowed + 10)
    assert await client.is_closed()


async def test_the_bytes_of_its_length_count_too(server: Server, client: Client) -> None:
    await client.log_in()
    client.writer.write(frame(ECHO, b"whole") + frame(ECHO, b"not whole")[:2])
    await client.answer()
    held, now = only(server), asyncio.get_running_loop().time()
    held.last_activity = now + FRAME_SECONDS
    client.writer.write(frame(ECHO, b"not whole")[2:3])
    while len(held._rest) < 3:
        await asyncio.sleep(0.01)
    assert await left_at(server, now + FRAME_SECONDS - 10) == 1
    held.last_activity = now + FRAME_SECONDS
    server.listening.close_stalled(now + FRAME_SECONDS + 10)
    assert await client.is_closed()


async def test_frames_that_wait_for_others_are_not_late(served: tuple[Server, int], client: Client) -> None:
    server, port = served
    await client.log_in()
    body, held = bytes(900_000), 3
    client.writer.write(b"".join(frame(HELD, body, number=number) for number in range(held)))
    while server.begun < held:
        await asyncio.sleep(0.01)
    assert server.listening.budget.is_full
    other = await connect(port)
    await other.log_in()
    other.writer.write(frame(ECHO, body, number=9))
    (waiting,) = (each for each in server.listening._open if each.is_idle)
    while not waiting._is_starved:
        await asyncio.sleep(0.01)
    later = asyncio.get_running_loop().time() + 100 * FRAME_SECONDS
    assert await left_at(server, later) == 2
    # It has all its time once it is read again.
    waiting._paused_at -= 100 * FRAME_SECONDS
    waiting._frame_since -= 100 * FRAME_SECONDS
    server.release.set()
    assert await other.answer() == (0, 9, body)
    for _ in range(held):
        await client.answer()
    assert await left_at(server, asyncio.get_running_loop().time() + 10) == 2
    other.writer.close()
