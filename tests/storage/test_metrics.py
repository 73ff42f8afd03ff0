"""The counting store changes nothing and counts everything."""

from __future__ import annotations

import asyncio

import pytest
from tests.contracts.storage import StorageContract, keys_of, put_all, streamed
from tests.fixtures.faulty_storage import Delay, FailBefore, FaultScript, FaultyStorage

from lakebed.core.clock import ManualClock
from lakebed.core.errors import NotFound, Unavailable
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.metrics import BUCKET_SECONDS, InstrumentedStorage
from lakebed.storage.seam import Key, ObjectStorage

KEY = Key("key")


class TestInstrumentedStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> ObjectStorage:
        return InstrumentedStorage(MemoryStorage(ManualClock()), ManualClock())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(clock: ManualClock) -> InstrumentedStorage:
    return InstrumentedStorage(MemoryStorage(clock), clock)


async def test_calls_and_bytes_are_counted_by_operation(storage: InstrumentedStorage) -> None:
    await storage.put(KEY, b"12345")
    await storage.put_if_absent(Key("other"), b"123")
    await storage.get(KEY)
    await storage.get_range(KEY, 1, 3)
    await streamed(storage, KEY, 2)
    upload = await storage.start_multipart(Key("parts"))
    await upload.complete([await upload.upload_part(1, b"1234567")])
    counted = {name: (one.calls, one.bytes_sent, one.bytes_received) for name, one in storage.statistics().items()}
    assert counted == {
        "complete": (1, 0, 0),
        "get": (1, 0, 5),
        "get_range": (1, 0, 2),
        "put": (1, 5, 0),
        "put_if_absent": (1, 3, 0),
        "start_multipart": (1, 0, 0),
        "stream": (1, 0, 3),
        "upload_part": (1, 7, 0),
    }


async def test_errors_are_counted_by_kind_and_raised(clock: ManualClock) -> None:
    script = FaultScript().on("put", FailBefore(Unavailable()), FailBefore(Unavailable()))
    storage = InstrumentedStorage(FaultyStorage(MemoryStorage(clock), script), clock)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await storage.put(KEY, b"x")
    await storage.put(KEY, b"x")
    with pytest.raises(NotFound):
        await storage.head(Key("absent"))
    statistics = storage.statistics()
    assert statistics["put"].errors == {"Unavailable": 2}
    assert (statistics["put"].calls, statistics["put"].bytes_sent) == (3, 1)
    assert statistics["head"].errors == {"NoSuchKey": 1}


async def test_durations_are_summed_and_sorted_into_buckets(clock: ManualClock) -> None:
    durations = [0.0005, 0.02, 0.02, 60.0]

    async def take_time() -> None:
        clock.advance(durations[script.calls("put") - 1])

    script = FaultScript().always("put", Delay(take_time))
    storage = InstrumentedStorage(FaultyStorage(MemoryStorage(clock), script), clock)
    for _ in durations:
        await storage.put(KEY, b"")
    statistics = storage.statistics()["put"]
    assert statistics.seconds == pytest.approx(sum(durations))
    filled = {limit: count for limit, count in zip((*BUCKET_SECONDS, None), statistics.buckets, strict=True) if count}
    assert filled == {0.001: 1, 0.025: 2, None: 1}


async def test_calls_under_way_are_in_flight(clock: ManualClock) -> None:
    gate = asyncio.Event()
    faulty = FaultyStorage(MemoryStorage(clock), FaultScript().on("put", Delay(gate.wait)))
    storage = InstrumentedStorage(faulty, clock)
    putting = asyncio.create_task(storage.put(KEY, b"x"))
    await asyncio.sleep(0)
    assert (storage.statistics()["put"].in_flight, storage.statistics()["put"].calls) == (1, 0)
    gate.set()
    await putting
    assert (storage.statistics()["put"].in_flight, storage.statistics()["put"].calls) == (0, 1)


async def test_snapshot_does_not_change(storage: InstrumentedStorage) -> None:
    await storage.put(KEY, b"x")
    before = storage.statistics()
    await storage.put(KEY, b"x")
    await storage.get(KEY)
    assert before["put"].calls == 1
    assert "get" not in before
    with pytest.raises(TypeError):
        before["put"] = before["put"]  # type: ignore[index]  # that it cannot be set is the point


async def test_listing_left_early_is_a_call_and_no_error(storage: InstrumentedStorage) -> None:
    await put_all(storage, "abc")
    listing = storage.list_prefix()
    await anext(listing)
    await listing.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert await keys_of(storage) == ["a", "b", "c"]
    statistics = storage.statistics()["list_prefix"]
    assert (statistics.calls, statistics.errors) == (2, {})
