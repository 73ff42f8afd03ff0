"""The failing store is a store: without faults it passes the contract, and with one it does exactly that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import TypeVar

import pytest
from tests.contracts.storage import StorageContract, keys_of, put_all

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AlreadyExists, LakebedError, NotFound, Throttled, Unavailable
from lakebed.storage.faults import (
    Delay,
    DelayAnswer,
    FailAfter,
    FailBefore,
    FailPartway,
    FaultScript,
    FaultyStorage,
    SeededFaults,
)
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import IfAbsent, Key, ObjectHead, ObjectStorage

T = TypeVar("T")

KEY = Key("key")


class TestWithoutFaults(StorageContract):
    @pytest.fixture
    def storage(self) -> ObjectStorage:
        return FaultyStorage(MemoryStorage(ManualClock()), FaultScript())


@pytest.fixture
def inner() -> MemoryStorage:
    return MemoryStorage(ManualClock())


async def collect(items: AsyncIterator[T], into: list[T]) -> None:
    async for item in items:
        into.append(item)


async def test_request_that_fails_before_changes_nothing(inner: MemoryStorage) -> None:
    storage = FaultyStorage(inner, FaultScript().on("put", FailBefore(Unavailable())))
    with pytest.raises(Unavailable):
        await storage.put(KEY, b"x")
    with pytest.raises(NotFound):
        await inner.get(KEY)


async def test_request_whose_answer_is_lost_has_happened(inner: MemoryStorage) -> None:
    storage = FaultyStorage(inner, FaultScript().on("put_if_absent", FailAfter(Unavailable())))
    with pytest.raises(Unavailable):
        await storage.put_if_absent(KEY, b"x")
    assert await inner.get(KEY) == b"x"
    with pytest.raises(AlreadyExists):
        await storage.put_if_absent(KEY, b"y")


async def test_script_hits_the_calls_it_names(inner: MemoryStorage) -> None:
    script = FaultScript().on("put", FailBefore(Unavailable()), FailBefore(Throttled()), at=2)
    script.always("delete", FailBefore(Throttled()))
    storage = FaultyStorage(inner, script)
    await storage.put(KEY, b"1")
    with pytest.raises(Unavailable):
        await storage.put(KEY, b"2")
    with pytest.raises(Throttled):
        await storage.put(KEY, b"3")
    await storage.put(KEY, b"4")
    assert script.calls("put") == 4
    for _ in range(2):
        with pytest.raises(Throttled):
            await storage.delete(KEY)


@pytest.mark.parametrize("count", [0, 1, 300_000, 700_000])
async def test_stream_breaks_after_so_many_bytes(inner: MemoryStorage, count: int) -> None:
    await inner.put(KEY, b"x" * 700_001)
    storage = FaultyStorage(inner, FaultScript().on("stream", FailPartway(Unavailable(), count)))
    received: list[bytes] = []
    with pytest.raises(Unavailable):
        await collect(storage.stream(KEY), received)
    assert len(b"".join(received)) == count


async def test_listing_breaks_after_so_many_keys(inner: MemoryStorage) -> None:
    await put_all(inner, "abc")
    storage = FaultyStorage(inner, FaultScript().on("list_prefix", FailPartway(Unavailable(), 2)))
    seen: list[ObjectHead] = []
    with pytest.raises(Unavailable):
        await collect(storage.list_prefix(), seen)
    assert [head.key for head in seen] == ["a", "b"]


async def test_batch_breaks_after_so_many_keys(inner: MemoryStorage) -> None:
    await put_all(inner, "abc")
    storage = FaultyStorage(inner, FaultScript().on("delete_many", FailPartway(Unavailable(), 2)))
    with pytest.raises(Unavailable):
        await storage.delete_many([Key("a"), Key("b"), Key("c")])
    assert await keys_of(inner) == ["c"]


async def test_delayed_request_waits_for_its_event(inner: MemoryStorage) -> None:
    gate = asyncio.Event()
    storage = FaultyStorage(inner, FaultScript().on("put", Delay(gate.wait)))
    putting = asyncio.create_task(storage.put(KEY, b"x"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert await keys_of(inner) == []
    gate.set()
    await putting
    assert await inner.get(KEY) == b"x"


async def test_delayed_answer_comes_after_the_change(inner: MemoryStorage) -> None:
    gate = asyncio.Event()
    storage = FaultyStorage(inner, FaultScript().on("put", DelayAnswer(gate.wait)))
    putting = asyncio.create_task(storage.put(KEY, b"x"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert await keys_of(inner) == [KEY]
    assert not putting.done()
    gate.set()
    await putting


async def test_calls_of_uploads_fail_too(inner: MemoryStorage) -> None:
    script = FaultScript().on("upload_part", FailBefore(Unavailable())).on("complete", FailAfter(Unavailable()))
    script.on("abort", FailBefore(Unavailable()))
    upload = await FaultyStorage(inner, script).start_multipart(KEY)
    with pytest.raises(Unavailable):
        await upload.upload_part(1, b"x")
    part = await upload.upload_part(1, b"y")
    with pytest.raises(Unavailable):
        await upload.complete([part], IfAbsent())
    assert await inner.get(KEY) == b"y"
    with pytest.raises(Unavailable):
        await upload.abort()


async def outcomes(seed: int, rate: float) -> list[str]:
    storage = FaultyStorage(MemoryStorage(ManualClock()), SeededFaults(Random(seed), rate, in_a_row=2))
    seen: list[str] = []
    for number in range(60):
        try:
            await storage.put(KEY, str(number).encode())
            seen.append("ok")
        except LakebedError as error:
            seen.append(type(error).__name__)
    return seen


async def test_same_seed_fails_the_same_way() -> None:
    assert await outcomes(5, 0.5) == await outcomes(5, 0.5)
    assert await outcomes(5, 0.5) != await outcomes(6, 0.5)
    assert {"ok", "Unavailable", "Throttled"} == set(await outcomes(5, 0.5))


async def test_random_failures_in_a_row_are_limited() -> None:
    seen = await outcomes(1, 1.0)
    assert all("ok" in seen[start : start + 3] for start in range(len(seen) - 2))
    assert set(await outcomes(1, 0.0)) == {"ok"}
