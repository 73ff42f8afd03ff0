"""The buffered writer: bytes out are bytes in, memory is bounded, and nothing stays behind."""

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
    """Let every task run until it waits for something."""
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


async def nothing_left(inner: MemoryStorage) -> bool:
    return await open_uploads(inner, "") == [] and await keys_of(inner) == []


class TestBytes:
    @pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART - 1, 3 * PART, 3 * PART + 1, 12 * PART])
    async def test_object_holds_what_was_written(self, inner: MemoryStorage, size: int) -> None:
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
    def test_bytes_out_are_bytes_in_for_any_split(self, sizes: list[int], in_flight: int) -> None:
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

    async def test_callers_buffer_may_be_reused(self, inner: MemoryStorage) -> None:
        writer = new_writer(inner)
        buffer = bytearray(b"aaaaaaa")
        await writer.write(buffer)
        buffer[:] = b"bbbbbbb"
        await writer.write(memoryview(buffer))
        await writer.finish()
        assert await inner.get(KEY) == b"aaaaaaabbbbbbb"

    async def test_small_object_is_one_put(self, inner: MemoryStorage) -> None:
        script = FaultScript()
        writer = new_writer(FaultyStorage(inner, script))
        await writer.write(body_of(PART - 1))
        assert script.calls("start_multipart") == 0
        await writer.finish()
        assert (script.calls("put"), script.calls("start_multipart")) == (1, 0)

    async def test_parts_are_equal_but_for_the_last(self, inner: MemoryStorage) -> None:
        sizes: list[int] = []
        storage = Watching(inner, lambda number, body: sizes.append(len(body)))
        writer = new_writer(storage, in_flight=1)
        for size in (3, 29, 1, 10):
            await writer.write(body_of(size))
        await writer.finish()
        assert sizes == [PART, PART, PART, PART, 3]

    async def test_parts_that_arrive_out_of_order_are_put_in_order(self, inner: MemoryStorage) -> None:
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
    """A store that tells of every part it is sent."""

    def __init__(self, inner: ObjectStorage, tell: Callable[[int, ByteSource], object]) -> None:
        super().__init__(inner, FaultScript())
        self._tell = tell

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        return WatchedUpload(await super().start_multipart(key, metadata=metadata), self._tell)


class WatchedUpload:
    def __init__(self, inner: MultipartUpload, tell: Callable[[int, ByteSource], object]) -> None:
        self._inner = inner
        self._tell = tell
        self.complete = inner.complete
        self.abort = inner.abort

    @property
    def key(self) -> Key:
        return self._inner.key

    @property
    def upload_id(self) -> str:
        return self._inner.upload_id

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        self._tell(number, body)
        return await self._inner.upload_part(number, body)


class TestMemory:
    async def test_write_waits_while_too_much_is_in_flight(self, inner: MemoryStorage) -> None:
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
    async def test_budget_comes_back_however_the_writer_ends(self, inner: MemoryStorage, ending: str) -> None:
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
        assert await nothing_left(inner)


class TestGrowth:
    def test_first_thousand_parts_are_equal_and_then_the_size_doubles(self) -> None:
        assert {part_size_at(number, MIN_PART_BYTES) for number in range(1, 1001)} == {MIN_PART_BYTES}
        assert part_size_at(1001, MIN_PART_BYTES) == 2 * MIN_PART_BYTES
        assert part_size_at(2001, MIN_PART_BYTES) == 4 * MIN_PART_BYTES

    def test_ten_thousand_parts_hold_five_terabytes_of_the_default(self) -> None:
        total = sum(part_size_at(number, WriterSettings().part_size_bytes) for number in range(1, MAX_PARTS + 1))
        assert total >= 5 * 1024**4

    @given(st.integers(1, MAX_PARTS), st.integers(MIN_PART_BYTES, 5 * 1024**3))
    def test_no_part_is_over_five_gibibytes(self, number: int, first: int) -> None:
        assert first <= part_size_at(number, first) <= 5 * 1024**3

    async def test_larger_parts_are_cut_and_fewer_are_in_flight(
        self, inner: MemoryStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "_EQUAL_PARTS", 2)
        sizes: list[int] = []
        held: list[int] = []

        def note(number: int, body: ByteSource) -> None:
            sizes.append(len(body))
            held.append(writer._slots.held_bytes)

        writer = new_writer(Watching(inner, note), in_flight=2)
        await writer.write(body_of(2 * PART + 4 * PART + 8 * PART + 5))
        await writer.finish()
        assert sizes == [PART, PART, 2 * PART, 2 * PART, 4 * PART, 4 * PART, 5]
        assert max(held) == 4 * PART, "one part that is larger than all the room, alone"
        assert await inner.get(KEY) == body_of(14 * PART + 5)

    async def test_object_that_needs_too_many_parts_fails(
        self, inner: MemoryStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "MAX_PARTS", 3)
        writer = new_writer(inner)
        await writer.write(body_of(3 * PART))
        with pytest.raises(TooLarge):
            await writer.write(body_of(PART))
        assert writer.state is WriterState.FAILED
        assert await nothing_left(inner)


class TestRetries:
    @pytest.mark.parametrize("fault", [DOWN, LOST, FailBefore(Throttled())])
    async def test_failing_part_is_sent_again(self, inner: MemoryStorage, fault: Fault) -> None:
        script = FaultScript().on("upload_part", fault, fault, at=2)
        async with new_writer(FaultyStorage(inner, script)) as writer:
            await writer.write(body_of(5 * PART + 1))
            await writer.finish()
        assert await inner.get(KEY) == body_of(5 * PART + 1)
        assert script.calls("upload_part") == 8

    async def test_retries_pause_with_jitter(self, inner: MemoryStorage) -> None:
        pauses: list[float] = []

        async def note(seconds: float) -> None:
            pauses.append(seconds)

        script = FaultScript().on("upload_part", DOWN, DOWN)
        async with new_writer(FaultyStorage(inner, script), sleep=note) as writer:
            await writer.write(body_of(PART))
            await writer.finish()
        random = Random(1)
        assert pauses == [random.uniform(0, 0.1), random.uniform(0, 0.2)]

    @pytest.mark.parametrize("part", [1, 2, 5, 6])
    async def test_part_that_fails_for_good_fails_the_object(self, inner: MemoryStorage, part: int) -> None:
        script = FaultScript().on("upload_part", FailBefore(TooLarge("no")), at=part)
        writer = new_writer(FaultyStorage(inner, script))
        with pytest.raises(TooLarge):
            await write_and_finish(writer, 5 * PART + 1)
        assert writer.state is WriterState.FAILED
        assert await nothing_left(inner)
        with pytest.raises(StateConflict):
            await writer.write(b"more")

    async def test_attempts_on_a_part_end(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("upload_part", DOWN)
        with pytest.raises(Unavailable):
            await write_and_finish(new_writer(FaultyStorage(inner, script), attempts=3, in_flight=1), 2 * PART)
        assert script.calls("upload_part") == 3
        assert await nothing_left(inner)

    async def test_surprise_in_a_part_is_not_swallowed(self, inner: MemoryStorage) -> None:
        def surprise(number: int, body: ByteSource) -> None:
            if number == 2:
                raise ZeroDivisionError

        writer = new_writer(Watching(inner, surprise))
        with pytest.raises(ZeroDivisionError):
            await write_and_finish(writer, 5 * PART)
        assert await nothing_left(inner)

    async def test_failed_opening_fails_the_object(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("start_multipart", DOWN)
        writer = new_writer(FaultyStorage(inner, script))
        with pytest.raises(Unavailable):
            await writer.write(body_of(PART))
        assert writer.state is WriterState.FAILED
        assert await nothing_left(inner)

    async def test_put_of_a_small_object_is_sent_again(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("put_if_absent", DOWN, LOST)
        writer = new_writer(FaultyStorage(inner, script), condition=IfAbsent())
        await writer.write(b"small")
        written = await writer.finish()
        assert written.etag == (await inner.head(KEY)).etag


class TestCompletion:
    @pytest.mark.parametrize("condition", [None, IfAbsent()])
    async def test_completion_whose_answer_was_lost_is_found_to_be_ours(
        self, inner: MemoryStorage, condition: WriteCondition | None
    ) -> None:
        script = FaultScript().on("complete", LOST)
        writer = new_writer(FaultyStorage(inner, script), condition=condition)
        written = await write_and_finish(writer, 3 * PART)
        assert written.etag == (await inner.head(KEY)).etag
        assert script.calls("complete") == 2
        assert writer.state is WriterState.DONE

    async def test_completion_of_an_upload_that_vanished_fails(self, inner: MemoryStorage) -> None:
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

    async def test_undecided_completion_is_run_again_while_bytes_are_held(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("complete", CONFLICT, CONFLICT)
        writer = new_writer(FaultyStorage(inner, script), in_flight=4, condition=IfAbsent())
        await write_and_finish(writer, 3 * PART + 2)
        assert await inner.get(KEY) == body_of(3 * PART + 2)
        assert (script.calls("start_multipart"), script.calls("upload_part")) == (3, 12)
        assert await open_uploads(inner, "") == []

    async def test_run_again_may_find_that_somebody_was_first(self, inner: MemoryStorage) -> None:
        async def somebody() -> None:
            await inner.put(KEY, b"theirs")

        script = FaultScript().on("complete", CONFLICT, Delay(somebody))
        writer = new_writer(FaultyStorage(inner, script), in_flight=4, condition=IfAbsent())
        with pytest.raises(AlreadyExists):
            await write_and_finish(writer, 3 * PART)
        assert await inner.get(KEY) == b"theirs"
        assert await open_uploads(inner, "") == []

    @pytest.mark.parametrize("shares_budget", [False, True])
    async def test_undecided_completion_fails_once_bytes_are_gone(
        self, inner: MemoryStorage, shares_budget: bool
    ) -> None:
        script = FaultScript().on("complete", CONFLICT)
        budget = ByteBudget(100 * PART) if shares_budget else None
        writer = new_writer(FaultyStorage(inner, script), in_flight=2, condition=IfAbsent(), budget=budget)
        with pytest.raises(WriteConflict):
            await write_and_finish(writer, 2 * PART if shares_budget else 3 * PART)
        assert writer.state is WriterState.FAILED
        assert await nothing_left(inner)

    async def test_undecided_put_is_evaluated_again(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("put_if_absent", CONFLICT)
        await write_and_finish(new_writer(FaultyStorage(inner, script), condition=IfAbsent()), 3)
        assert await inner.get(KEY) == body_of(3)

    async def test_completion_that_never_answers_fails_and_frees_the_parts(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("complete", DOWN)
        with pytest.raises(Unavailable):
            await write_and_finish(new_writer(FaultyStorage(inner, script)), 3 * PART)
        assert await nothing_left(inner)


class TestEnd:
    async def test_abort_while_buffering_asks_nothing(self, inner: MemoryStorage) -> None:
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
        assert await nothing_left(inner)

    async def test_abort_does_not_wait_for_pauses(self, inner: MemoryStorage) -> None:
        async def forever(seconds: float) -> None:
            await asyncio.Event().wait()

        script = FaultScript().on("upload_part", DOWN)
        writer = new_writer(FaultyStorage(inner, script), sleep=forever)
        await writer.write(body_of(PART))
        await settle()
        await writer.abort()
        assert await nothing_left(inner)

    async def test_abort_is_tried_again(self, inner: MemoryStorage) -> None:
        writer = new_writer(FaultyStorage(inner, FaultScript().on("abort", DOWN, DOWN)))
        await writer.write(body_of(PART))
        await writer.abort()
        assert await nothing_left(inner)

    async def test_abort_that_cannot_reach_the_store_says_so(self, inner: MemoryStorage) -> None:
        writer = new_writer(FaultyStorage(inner, FaultScript().always("abort", DOWN)))
        await writer.write(body_of(PART))
        with pytest.raises(Unavailable):
            await writer.abort()
        assert writer.state is WriterState.ABORTED

    async def test_first_error_stands_when_the_abort_fails_too(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("upload_part", FailBefore(TooLarge("the reason"))).always("abort", DOWN)
        with pytest.raises(TooLarge, match="the reason") as raised:
            await write_and_finish(new_writer(FaultyStorage(inner, script)), 3 * PART)
        assert "could not be aborted" in raised.value.__notes__[0]

    async def test_ended_writer_takes_nothing_more(self, inner: MemoryStorage) -> None:
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
        assert await nothing_left(inner)

    async def test_block_that_does_not_finish_aborts(self, inner: MemoryStorage) -> None:
        async with new_writer(inner) as writer:
            await writer.write(body_of(3 * PART))
        assert writer.state is WriterState.ABORTED
        assert await nothing_left(inner)

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
        # Nobody can take back a completion that has happened.
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
        assert await nothing_left(inner)

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
        assert await nothing_left(inner)

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

    def test_nothing_in_flight_is_refused(self) -> None:
        with pytest.raises(InvalidSetting, match=r"^max_in_flight"):
            WriterSettings(max_in_flight=0)

    def test_key_is_checked_before_anything_is_taken(self, inner: MemoryStorage) -> None:
        with pytest.raises(InvalidName):
            BufferedMultipartWriter(inner, Key("a//b"))


async def write_and_finish(writer: BufferedMultipartWriter, size: int) -> writer_module.WriterResult:
    await writer.write(body_of(size))
    return await writer.finish()
