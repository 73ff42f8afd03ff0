"""The buffered writer: objects contain what was written, memory is bounded, and nothing remains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AlreadyExists,
    InvalidName,
    InvalidSetting,
    NotFound,
    PreconditionFailed,
    StateConflict,
    Throttled,
    TooLarge,
    Unavailable,
    WriteConflict,
)
from lakebed.storage import writer as writer_module
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.budget import ByteBudget
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import (
    MAX_PARTS,
    MIN_PART_BYTES,
    ByteSource,
    IfAbsent,
    IfMatch,
    Key,
    Metadata,
    MultipartUpload,
    ObjectStorage,
    PartReceipt,
    WriteCondition,
)
from lakebed.storage.writer import BufferedMultipartWriter, WriterSettings, WriterState, part_size_at
from tests.contracts.storage import keys_of, open_uploads
from tests.fixtures.faulty_storage import Delay, DelayAnswer, FailAfter, FailBefore, Fault, FaultScript, FaultyStorage

KEY = Key("log/segment")
PART = 10
DOWN = FailBefore(Unavailable("cannot be reached"))
LOST = FailAfter(Unavailable("answer lost", undecided=True))
CONFLICT = FailBefore(WriteConflict())


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)


def new_writer(
    storage: ObjectStorage,
    *,
    in_flight: int = 2,
    attempts: int = 3,
    condition: WriteCondition | None = None,
    budget: ByteBudget | None = None,
    key: Key = KEY,
    sleep: Callable[[float], Awaitable[None]] = no_pause,
) -> BufferedMultipartWriter:
    return BufferedMultipartWriter(
        storage,
        key,
        condition=condition,
        metadata={"name": "value"},
        settings=WriterSettings(part_size_bytes=PART, max_in_flight=in_flight, min_part_bytes=PART),
        retrier=Retrier(RetryPolicy(max_attempts=attempts), ManualClock(), sleep=sleep, random=Random(1)),
        budget=budget,
    )


def body_of(size: int) -> bytes:
    return bytes(number % 251 for number in range(size))


@pytest.fixture
def inner() -> MemoryStorage:
    return MemoryStorage(ManualClock(), min_part_bytes=PART)


async def is_empty(inner: MemoryStorage) -> bool:
    return await open_uploads(inner, "") == [] and await keys_of(inner) == []


class TestBytes:
    @pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART - 1, 3 * PART, 3 * PART + 1, 12 * PART])
    async def test_object_contains_what_was_written(self, inner: MemoryStorage, size: int) -> None:
        writer = new_writer(inner)
        await writer.write(body_of(size))
        written = await writer.finish()
        head = await inner.head(KEY)
        assert await inner.get(KEY) == body_of(size)
        assert (written.size, written.etag) == (size, head.etag)
        assert head.metadata["name"] == "value"
        assert writer.state is WriterState.DONE
        assert await open_uploads(inner, "") == []

    @pytest.mark.slow
    @given(st.lists(st.integers(0, 3 * PART + 2), max_size=12), st.integers(1, 4))
    def test_object_contains_what_was_written_for_any_split(self, sizes: list[int], in_flight: int) -> None:
        async def run() -> None:
            inner = MemoryStorage(ManualClock(), min_part_bytes=PART)
            body, taken = body_of(sum(sizes)), 0
            async with new_writer(inner, in_flight=in_flight) as writer:
                for size in sizes:
                    await writer.write(body[taken : taken + size])
                    taken += size
                await writer.finish()
            assert await inner.get(KEY) == body

        asyncio.run(run())

    async def test_buffer_of_the_caller_may_be_reused(self, inner: MemoryStorage) -> None:
        writer = new_writer(inner)
        buffer = bytearray(b"aaaaaaa")
        await writer.write(buffer)
        buffer[:] = b"bbbbbbb"
        await writer.write(memoryview(buffer))
        await writer.finish()
        assert await inner.get(KEY) == b"aaaaaaabbbbbbb"

    async def test_small_object_is_written_by_one_put(self, inner: MemoryStorage) -> None:
        script = FaultScript()
        writer = new_writer(FaultyStorage(inner, script))
        await writer.write(body_of(PART - 1))
        assert script.calls("start_multipart") == 0
        await writer.finish()
        assert (script.calls("put"), script.calls("start_multipart")) == (1, 0)

    async def test_parts_have_equal_size_except_the_last(self, inner: MemoryStorage) -> None:
        sizes: list[int] = []
        storage = Watching(inner, lambda number, body: sizes.append(len(body)))
        writer = new_writer(storage, in_flight=1)
        for size in (3, 29, 1, 10):
            await writer.write(body_of(size))
        await writer.finish()
        assert sizes == [PART, PART, PART, PART, 3]

    async def test_parts_finished_out_of_order_are_completed_in_order(self, inner: MemoryStorage) -> None:
        gate = asyncio.Event()
        script = FaultScript().on("upload_part", Delay(gate.wait))
        writer = new_writer(FaultyStorage(inner, script), in_flight=4)
        await writer.write(body_of(35))
        finishing = asyncio.create_task(writer.finish())
        await settle()
        assert script.calls("upload_part") == 4
        gate.set()
        await finishing
        assert await inner.get(KEY) == body_of(35)


class Watching(FaultyStorage):
    """A store that reports every part it receives."""

    def __init__(self, inner: ObjectStorage, on_part: Callable[[int, ByteSource], object]) -> None:
        super().__init__(inner, FaultScript())
        self._on_part = on_part

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        return WatchedUpload(await super().start_multipart(key, metadata=metadata), self._on_part)


class WatchedUpload:
    def __init__(self, inner: MultipartUpload, on_part: Callable[[int, ByteSource], object]) -> None:
        self._inner = inner
        self._on_part = on_part
        self.complete = inner.complete
        self.abort = inner.abort

    @property
    def key(self) -> Key:
        return self._inner.key

    @property
    def upload_id(self) -> str:
        return self._inner.upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        self._on_part(number, body)
        return await self._inner.upload_part(number, body)


class TestMemory:
    async def test_write_waits_while_too_many_bytes_are_in_flight(self, inner: MemoryStorage) -> None:
        gate = asyncio.Event()
        script = FaultScript().always("upload_part", Delay(gate.wait))
        writer = new_writer(FaultyStorage(inner, script), in_flight=2)
        writing = asyncio.create_task(writer.write(body_of(10 * PART)))
        await settle()
        assert not writing.done()
        assert script.calls("upload_part") == 2
        assert writer.held_bytes == 3 * PART
        gate.set()
        await writing
        await writer.finish()
        assert await inner.get(KEY) == body_of(10 * PART)

    @pytest.mark.parametrize("condition", [None, IfAbsent()])
    async def test_held_bytes_never_exceed_the_bound(
        self, inner: MemoryStorage, condition: WriteCondition | None
    ) -> None:
        held: list[int] = []
        storage = Watching(inner, lambda number, body: held.append(writer.held_bytes))
        writer = new_writer(storage, in_flight=3, condition=condition)
        for _ in range(40):
            await writer.write(body_of(7))
            held.append(writer.held_bytes)
        await writer.finish()
        assert max(held) <= PART * 4
        assert writer.held_bytes == 0

    async def test_writers_share_a_budget(self, inner: MemoryStorage) -> None:
        gate = asyncio.Event()
        script = FaultScript().always("upload_part", Delay(gate.wait))
        storage = FaultyStorage(inner, script)
        budget = ByteBudget(3 * PART)
        writers = [new_writer(storage, in_flight=4, budget=budget, key=Key(f"key-{name}")) for name in range(3)]
        writing = [asyncio.create_task(writer.write(body_of(4 * PART))) for writer in writers]
        await settle()
        assert script.calls("upload_part") == 3
        assert budget.held_bytes == 3 * PART
        gate.set()
        await asyncio.gather(*writing)
        for writer in writers:
            await writer.finish()
        assert budget.held_bytes == 0

    async def test_part_over_the_whole_budget_is_still_sent(self, inner: MemoryStorage) -> None:
        budget = ByteBudget(PART // 2)
        async with new_writer(inner, budget=budget) as writer:
            await writer.write(body_of(5 * PART))
            await writer.finish()
        assert await inner.get(KEY) == body_of(5 * PART)
        assert budget.held_bytes == 0

    @pytest.mark.parametrize("ending", ["abort", "fail", "cancel"])
    async def test_budget_is_released_however_the_writer_ends(self, inner: MemoryStorage, ending: str) -> None:
        budget = ByteBudget(4 * PART)
        gate = asyncio.Event()
        script = FaultScript()
        if ending == "fail":
            script.on("upload_part", FailBefore(TooLarge()), at=2)
        if ending == "cancel":
            script.on("upload_part", Delay(gate.wait), Delay(gate.wait))
        writer = new_writer(FaultyStorage(inner, script), budget=budget)
        writing = asyncio.create_task(writer.write(body_of(9 * PART)))
        await settle()
        if ending == "cancel":
            writing.cancel()
            gate.set()
        await asyncio.wait([writing])
        if ending == "abort":
            await writer.abort()
        await settle()
        assert budget.held_bytes == 0
        assert await is_empty(inner)


class TestGrowth:
    def test_part_size_doubles_every_thousand_parts(self) -> None:
        assert {part_size_at(number, MIN_PART_BYTES) for number in range(1, 1001)} == {MIN_PART_BYTES}
        assert part_size_at(1001, MIN_PART_BYTES) == 2 * MIN_PART_BYTES
        assert part_size_at(2001, MIN_PART_BYTES) == 4 * MIN_PART_BYTES

    def test_default_part_size_allows_five_terabytes(self) -> None:
        total = sum(part_size_at(number, WriterSettings().part_size_bytes) for number in range(1, MAX_PARTS + 1))
        assert total >= 5 * 1024**4

    @given(st.integers(1, MAX_PARTS), st.integers(MIN_PART_BYTES, 5 * 1024**3))
    def test_no_part_is_over_five_gibibytes(self, number: int, first: int) -> None:
        assert first <= part_size_at(number, first) <= 5 * 1024**3

    async def test_with_larger_parts_fewer_are_in_flight(
        self, inner: MemoryStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "_EQUAL_PARTS", 2)
        sizes: list[int] = []
        held: list[int] = []

        def record(number: int, body: ByteSource) -> None:
            sizes.append(len(body))
            held.append(writer._slots.held_bytes)

        writer = new_writer(Watching(inner, record), in_flight=2)
        await writer.write(body_of(2 * PART + 4 * PART + 8 * PART + 5))
        await writer.finish()
        assert sizes == [PART, PART, 2 * PART, 2 * PART, 4 * PART, 4 * PART, 5]
        assert max(held) == 4 * PART, "one part that is larger than all the room, alone"
        assert await inner.get(KEY) == body_of(14 * PART + 5)

    async def test_object_with_too_many_parts_fails(
        self, inner: MemoryStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "MAX_PARTS", 3)
        writer = new_writer(inner)
        await writer.write(body_of(3 * PART))
        with pytest.raises(TooLarge):
            await writer.write(body_of(PART))
        assert writer.state is WriterState.FAILED
        assert await is_empty(inner)


class TestRetries:
    @pytest.mark.parametrize("fault", [DOWN, LOST, FailBefore(Throttled())])
    async def test_failed_part_is_retried(self, inner: MemoryStorage, fault: Fault) -> None:
        script = FaultScript().on("upload_part", fault, fault, at=2)
        async with new_writer(FaultyStorage(inner, script)) as writer:
            await writer.write(body_of(5 * PART + 1))
            await writer.finish()
        assert await inner.get(KEY) == body_of(5 * PART + 1)
        assert script.calls("upload_part") == 8

    async def test_retries_pause_with_jitter(self, inner: MemoryStorage) -> None:
        pauses: list[float] = []

        async def record(seconds: float) -> None:
            pauses.append(seconds)

        script = FaultScript().on("upload_part", DOWN, DOWN)
        async with new_writer(FaultyStorage(inner, script), sleep=record) as writer:
            await writer.write(body_of(PART))
            await writer.finish()
        random = Random(1)
        assert pauses == [random.uniform(0, 0.1), random.uniform(0, 0.2)]

    @pytest.mark.parametrize("part", [1, 2, 5, 6])
    async def test_permanently_failing_part_fails_the_object(self, inner: MemoryStorage, part: int) -> None:
        script = FaultScript().on("upload_part", FailBefore(TooLarge("no")), at=part)
        writer = new_writer(FaultyStorage(inner, script))
        with pytest.raises(TooLarge):
            await write_and_finish(writer, 5 * PART + 1)
        assert writer.state is WriterState.FAILED
        assert await is_empty(inner)
        with pytest.raises(StateConflict):
            await writer.write(b"more")

    async def test_attempts_of_a_part_are_limited(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("upload_part", DOWN)
        with pytest.raises(Unavailable):
            await write_and_finish(new_writer(FaultyStorage(inner, script), attempts=3, in_flight=1), 2 * PART)
        assert script.calls("upload_part") == 3
        assert await is_empty(inner)

    async def test_unexpected_error_in_a_part_is_raised(self, inner: MemoryStorage) -> None:
        def crash(number: int, body: ByteSource) -> None:
            if number == 2:
                raise ZeroDivisionError

        writer = new_writer(Watching(inner, crash))
        with pytest.raises(ZeroDivisionError):
            await write_and_finish(writer, 5 * PART)
        assert await is_empty(inner)

    async def test_failed_start_of_the_upload_fails_the_object(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("start_multipart", DOWN)
        writer = new_writer(FaultyStorage(inner, script))
        with pytest.raises(Unavailable):
            await writer.write(body_of(PART))
        assert writer.state is WriterState.FAILED
        assert await is_empty(inner)

    async def test_put_of_a_small_object_is_retried(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("put_if_absent", DOWN, LOST)
        writer = new_writer(FaultyStorage(inner, script), condition=IfAbsent())
        await writer.write(b"small")
        written = await writer.finish()
        assert written.etag == (await inner.head(KEY)).etag


class TestCompletion:
    @pytest.mark.parametrize("condition", [None, IfAbsent()])
    async def test_completion_with_a_lost_response_is_recognized(
        self, inner: MemoryStorage, condition: WriteCondition | None
    ) -> None:
        script = FaultScript().on("complete", LOST)
        writer = new_writer(FaultyStorage(inner, script), condition=condition)
        written = await write_and_finish(writer, 3 * PART)
        assert written.etag == (await inner.head(KEY)).etag
        assert script.calls("complete") == 2
        assert writer.state is WriterState.DONE

    async def test_completion_of_a_missing_upload_fails(self, inner: MemoryStorage) -> None:
        async def vanish() -> None:
            for key, upload_id in await open_uploads(inner, ""):
                await inner.abort_upload(Key(key), upload_id)

        await inner.put(KEY, b"theirs")
        script = FaultScript().on("complete", DOWN, Delay(vanish))
        writer = new_writer(FaultyStorage(inner, script))
        with pytest.raises(NotFound):
            await write_and_finish(writer, 3 * PART)
        assert writer.state is WriterState.FAILED
        assert await inner.get(KEY) == b"theirs"

    @pytest.mark.parametrize("size", [3, 3 * PART])
    async def test_losing_create_leaves_first_body_visible(self, inner: MemoryStorage, size: int) -> None:
        await inner.put(KEY, b"first")
        writer = new_writer(inner, condition=IfAbsent())
        with pytest.raises(AlreadyExists):
            await write_and_finish(writer, size)
        assert writer.state is WriterState.FAILED
        assert await inner.get(KEY) == b"first"
        assert await open_uploads(inner, "") == []

    @pytest.mark.parametrize("size", [3, 3 * PART])
    async def test_swap_by_etag(self, inner: MemoryStorage, size: int) -> None:
        first = await inner.put(KEY, b"first")
        await write_and_finish(new_writer(inner, condition=IfMatch(first.etag)), size)
        assert await inner.get(KEY) == body_of(size)
        with pytest.raises(PreconditionFailed):
            await write_and_finish(new_writer(inner, condition=IfMatch(first.etag)), size)
        assert await open_uploads(inner, "") == []

    async def test_undecided_completion_is_repeated_while_parts_are_kept(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("complete", CONFLICT, CONFLICT)
        writer = new_writer(FaultyStorage(inner, script), in_flight=4, condition=IfAbsent())
        await write_and_finish(writer, 3 * PART + 2)
        assert await inner.get(KEY) == body_of(3 * PART + 2)
        assert (script.calls("start_multipart"), script.calls("upload_part")) == (3, 12)
        assert await open_uploads(inner, "") == []

    async def test_repeated_completion_may_lose_to_another_writer(self, inner: MemoryStorage) -> None:
        async def create_concurrently() -> None:
            await inner.put(KEY, b"theirs")

        script = FaultScript().on("complete", CONFLICT, Delay(create_concurrently))
        writer = new_writer(FaultyStorage(inner, script), in_flight=4, condition=IfAbsent())
        with pytest.raises(AlreadyExists):
            await write_and_finish(writer, 3 * PART)
        assert await inner.get(KEY) == b"theirs"
        assert await open_uploads(inner, "") == []

    @pytest.mark.parametrize("shares_budget", [False, True])
    async def test_undecided_completion_fails_if_parts_are_not_kept(
        self, inner: MemoryStorage, shares_budget: bool
    ) -> None:
        script = FaultScript().on("complete", CONFLICT)
        budget = ByteBudget(100 * PART) if shares_budget else None
        writer = new_writer(FaultyStorage(inner, script), in_flight=2, condition=IfAbsent(), budget=budget)
        with pytest.raises(WriteConflict):
            await write_and_finish(writer, 2 * PART if shares_budget else 3 * PART)
        assert writer.state is WriterState.FAILED
        assert await is_empty(inner)

    async def test_undecided_put_is_evaluated_again(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("put_if_absent", CONFLICT)
        await write_and_finish(new_writer(FaultyStorage(inner, script), condition=IfAbsent()), 3)
        assert await inner.get(KEY) == body_of(3)

    async def test_completion_without_response_fails_and_aborts_the_upload(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("complete", DOWN)
        with pytest.raises(Unavailable):
            await write_and_finish(new_writer(FaultyStorage(inner, script)), 3 * PART)
        assert await is_empty(inner)


class TestEnd:
    async def test_abort_while_buffering_sends_no_request(self, inner: MemoryStorage) -> None:
        script = FaultScript()
        writer = new_writer(FaultyStorage(inner, script))
        await writer.write(b"x")
        await writer.abort()
        assert writer.state is WriterState.ABORTED
        assert sum(map(script.calls, ("put", "start_multipart", "abort"))) == 0

    async def test_abort_while_uploading_waits_for_parts_and_leaves_nothing(self, inner: MemoryStorage) -> None:
        gate = asyncio.Event()
        script = FaultScript().on("upload_part", Delay(gate.wait))
        writer = new_writer(FaultyStorage(inner, script))
        await writer.write(body_of(2 * PART))
        aborting = asyncio.create_task(writer.abort())
        await settle()
        assert not aborting.done(), "a part that lands later would stay behind"
        gate.set()
        await aborting
        assert script.calls("abort") == 1
        assert await is_empty(inner)

    async def test_abort_does_not_wait_for_pauses(self, inner: MemoryStorage) -> None:
        async def forever(seconds: float) -> None:
            await asyncio.Event().wait()

        script = FaultScript().on("upload_part", DOWN)
        writer = new_writer(FaultyStorage(inner, script), sleep=forever)
        await writer.write(body_of(PART))
        await settle()
        await writer.abort()
        assert await is_empty(inner)

    async def test_abort_is_retried(self, inner: MemoryStorage) -> None:
        writer = new_writer(FaultyStorage(inner, FaultScript().on("abort", DOWN, DOWN)))
        await writer.write(body_of(PART))
        await writer.abort()
        assert await is_empty(inner)

    async def test_abort_raises_if_the_store_is_unavailable(self, inner: MemoryStorage) -> None:
        writer = new_writer(FaultyStorage(inner, FaultScript().always("abort", DOWN)))
        await writer.write(body_of(PART))
        with pytest.raises(Unavailable):
            await writer.abort()
        assert writer.state is WriterState.ABORTED

    async def test_first_error_is_raised_if_the_abort_fails_too(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("upload_part", FailBefore(TooLarge("the reason"))).always("abort", DOWN)
        with pytest.raises(TooLarge, match="the reason") as raised:
            await write_and_finish(new_writer(FaultyStorage(inner, script)), 3 * PART)
        assert "could not be aborted" in raised.value.__notes__[0]

    async def test_ended_writer_rejects_writes(self, inner: MemoryStorage) -> None:
        done, aborted = new_writer(inner), new_writer(inner, key=Key("other"))
        await done.finish()
        await aborted.abort()
        for writer in (done, aborted):
            with pytest.raises(StateConflict):
                await writer.write(b"")
            with pytest.raises(StateConflict):
                await writer.finish()
            await writer.abort()
        assert await keys_of(inner) == [KEY]

    async def test_block_that_raises_aborts(self, inner: MemoryStorage) -> None:
        with pytest.raises(ZeroDivisionError):
            await self.raise_within(new_writer(inner))
        assert await is_empty(inner)

    async def test_block_that_does_not_finish_aborts(self, inner: MemoryStorage) -> None:
        async with new_writer(inner) as writer:
            await writer.write(body_of(3 * PART))
        assert writer.state is WriterState.ABORTED
        assert await is_empty(inner)

    @pytest.mark.parametrize(
        ("operation", "at"),
        [("start_multipart", 1), ("upload_part", 1), ("upload_part", 4), ("complete", 1)],
        ids=["opening", "uploading", "last-part", "completing"],
    )
    @pytest.mark.parametrize("cancellations", [1, 3])
    @pytest.mark.parametrize("delay", [Delay, DelayAnswer])
    async def test_cancellation_in_any_state_leaves_no_upload(
        self, inner: MemoryStorage, operation: str, at: int, cancellations: int, delay: type[Delay | DelayAnswer]
    ) -> None:
        gate = asyncio.Event()
        script = FaultScript().on(operation, delay(gate.wait), at=at)
        writer = new_writer(FaultyStorage(inner, script), in_flight=1)
        writing = asyncio.create_task(write_and_finish(writer, 3 * PART + 1))
        await settle()
        assert script.calls(operation) == at
        for _ in range(cancellations):
            writing.cancel()
            await settle()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert writer.state is WriterState.ABORTED
        assert await open_uploads(inner, "") == []
        # A completion that has happened cannot be undone.
        assert await keys_of(inner) == ([KEY] if (operation, delay) == ("complete", DelayAnswer) else [])

    async def test_cancellation_while_waiting_for_the_budget_leaves_nothing(self, inner: MemoryStorage) -> None:
        budget = ByteBudget(PART)
        await budget.acquire(PART)
        writer = new_writer(inner, budget=budget)
        writing = asyncio.create_task(writer.write(body_of(PART)))
        await settle()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        budget.release(PART)
        assert budget.held_bytes == 0
        assert await is_empty(inner)

    @pytest.mark.parametrize("operation", ["start_multipart", "upload_part"])
    @pytest.mark.parametrize("delay", [Delay, DelayAnswer])
    async def test_abort_by_another_task_leaves_nothing(
        self, inner: MemoryStorage, operation: str, delay: type[Delay | DelayAnswer]
    ) -> None:
        gate = asyncio.Event()
        script = FaultScript().on(operation, delay(gate.wait))
        writer = new_writer(FaultyStorage(inner, script), in_flight=1)
        writing = asyncio.create_task(writer.write(body_of(3 * PART)))
        await settle()
        aborting = asyncio.create_task(writer.abort())
        await settle()
        gate.set()
        await aborting
        with pytest.raises(StateConflict):
            await writing
        assert writer.state is WriterState.ABORTED
        assert await is_empty(inner)

    @staticmethod
    async def raise_within(writer: BufferedMultipartWriter) -> None:
        async with writer:
            await writer.write(body_of(3 * PART))
            raise ZeroDivisionError


class TestSettings:
    @pytest.mark.parametrize("size", [0, MIN_PART_BYTES - 1, 5 * 1024**3 + 1])
    def test_part_size_is_checked_when_read(self, size: int) -> None:
        with pytest.raises(InvalidSetting, match=r"^part_size_bytes"):
            WriterSettings(part_size_bytes=size)

    def test_zero_parts_in_flight_is_rejected(self) -> None:
        with pytest.raises(InvalidSetting, match=r"^max_in_flight"):
            WriterSettings(max_in_flight=0)

    def test_key_is_checked_on_construction(self, inner: MemoryStorage) -> None:
        with pytest.raises(InvalidName):
            BufferedMultipartWriter(inner, Key("a//b"))


async def write_and_finish(writer: BufferedMultipartWriter, size: int) -> writer_module.WriterResult:
    await writer.write(body_of(size))
    return await writer.finish()
