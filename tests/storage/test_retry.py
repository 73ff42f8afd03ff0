"""The retrying store fulfils the contract over a failing one, and recognizes its own writes."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AlreadyExists,
    NotFound,
    PreconditionFailed,
    StorageFull,
    Unavailable,
    WriteConflict,
)
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.retry import PUT_ID, RetryingStorage
from lakebed.storage.seam import IfAbsent, IfMatch, Key, ObjectStorage
from tests.contracts.storage import StorageContract, keys_of, open_uploads, put_all, streamed
from tests.fixtures.faulty_storage import (
    FailAfter,
    FailBefore,
    FailPartway,
    Fault,
    FaultScript,
    FaultyStorage,
    SeededFaults,
)

KEY = Key("key")
LOST = FailAfter(Unavailable("answer lost", undecided=True))
MAYBE = FailBefore(Unavailable("answer lost, or never given", undecided=True))
DOWN = FailBefore(Unavailable("cannot be reached"))


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


def new_retrier(attempts: int = 8) -> Retrier:
    return Retrier(RetryPolicy(max_attempts=attempts), ManualClock(), sleep=no_pause, random=Random(1))


class RandomFaults:
    """Seeded faults, except those that a retry cannot hide: see the docstring of RetryingStorage."""

    def __init__(self, seed: int) -> None:
        self._seeded = SeededFaults(Random(seed), 0.4)

    def next_fault(self, operation: str, key: str) -> Fault | None:
        fault = self._seeded.next_fault(operation, key)
        if operation in ("stream", "start_multipart") and isinstance(fault, FailAfter | FailPartway):
            return FailBefore(fault.error)
        return fault


@pytest.mark.parametrize("seed", [1, 2])
class TestRetryingOverFaulty(StorageContract):
    @pytest.fixture
    def storage(self, seed: int) -> ObjectStorage:
        return RetryingStorage(FaultyStorage(MemoryStorage(ManualClock()), RandomFaults(seed)), new_retrier())


@pytest.fixture
def inner() -> MemoryStorage:
    return MemoryStorage(ManualClock())


def over(inner: ObjectStorage, script: FaultScript, attempts: int = 8) -> RetryingStorage:
    return RetryingStorage(FaultyStorage(inner, script), new_retrier(attempts))


class TestOwnWrites:
    async def test_create_with_a_lost_response_succeeds(self, inner: MemoryStorage) -> None:
        storage = over(inner, FaultScript().on("put_if_absent", LOST, LOST))
        version = await storage.put_if_absent(KEY, b"ours", metadata={"name": "value"})
        assert await inner.get(KEY) == b"ours"
        assert version.etag == (await inner.head(KEY)).etag

    async def test_swap_with_a_lost_response_succeeds(self, inner: MemoryStorage) -> None:
        first = await inner.put(KEY, b"first")
        storage = over(inner, FaultScript().on("put_if_match", LOST))
        version = await storage.put_if_match(KEY, b"ours", first.etag)
        assert await inner.get(KEY) == b"ours"
        assert version.etag == (await inner.head(KEY)).etag

    async def test_completion_with_a_lost_response_succeeds(self, inner: MemoryStorage) -> None:
        # The upload no longer exists when it is completed again.
        upload = await over(inner, FaultScript().on("complete", LOST)).start_multipart(KEY)
        version = await upload.complete([await upload.upload_part(1, b"ours")])
        assert version.etag == (await inner.head(KEY)).etag

    async def test_comparison_is_retried_too(self, inner: MemoryStorage) -> None:
        storage = over(inner, FaultScript().on("put_if_absent", LOST).on("head", DOWN, DOWN))
        await storage.put_if_absent(KEY, b"ours")
        assert await inner.get(KEY) == b"ours"

    async def test_write_id_is_hidden(self, inner: MemoryStorage) -> None:
        storage = over(inner, FaultScript())
        await storage.put_if_absent(KEY, b"x", metadata={"name": "value"})
        assert (await storage.head(KEY)).metadata == {"name": "value"}
        assert PUT_ID in (await inner.head(KEY)).metadata

    async def test_ids_of_two_writes_differ(self, inner: MemoryStorage) -> None:
        storage = over(inner, FaultScript())
        await storage.put_if_absent(Key("a"), b"")
        await storage.put_if_absent(Key("b"), b"")
        ids = {(await inner.head(Key(name))).metadata[PUT_ID] for name in "ab"}
        assert len(ids) == 2


class TestWritesOfOthers:
    async def test_create_rejected_at_first_attempt_is_not_compared(self, inner: MemoryStorage) -> None:
        await inner.put(KEY, b"theirs")
        script = FaultScript()
        with pytest.raises(AlreadyExists):
            await over(inner, script).put_if_absent(KEY, b"ours")
        assert script.calls("head") == 0

    async def test_create_rejected_after_an_outage_fails(self, inner: MemoryStorage) -> None:
        await inner.put(KEY, b"theirs")
        with pytest.raises(AlreadyExists):
            await over(inner, FaultScript().on("put_if_absent", DOWN)).put_if_absent(KEY, b"ours")
        assert await inner.get(KEY) == b"theirs"

    async def test_object_of_another_retrying_writer_is_not_recognized(self, inner: MemoryStorage) -> None:
        await over(inner, FaultScript()).put_if_absent(KEY, b"theirs")
        with pytest.raises(AlreadyExists):
            await over(inner, FaultScript().on("put_if_absent", DOWN)).put_if_absent(KEY, b"ours")

    async def test_swap_rejected_after_an_outage_fails(self, inner: MemoryStorage) -> None:
        first = await inner.put(KEY, b"first")
        await inner.put(KEY, b"theirs")
        with pytest.raises(PreconditionFailed):
            await over(inner, FaultScript().on("put_if_match", DOWN)).put_if_match(KEY, b"ours", first.etag)
        assert await inner.get(KEY) == b"theirs"

    async def test_swap_that_may_have_been_replaced_is_undecided(self, inner: MemoryStorage) -> None:
        # It may have been visible before: reporting a false condition would deny that.
        first = await inner.put(KEY, b"first")
        await inner.put(KEY, b"theirs")
        with pytest.raises(Unavailable) as raised:
            await over(inner, FaultScript().on("put_if_match", MAYBE)).put_if_match(KEY, b"ours", first.etag)
        assert raised.value.undecided
        assert await inner.get(KEY) == b"theirs"

    async def test_swap_rejected_after_a_conflict_fails(self, inner: MemoryStorage) -> None:
        script = FaultScript().on("put_if_match", FailBefore(WriteConflict()))
        with pytest.raises(PreconditionFailed):
            await over(inner, script).put_if_match(KEY, b"ours", "etag")
        assert script.calls("head") == 0

    async def test_conditional_completion_rejected_after_an_outage_fails(self, inner: MemoryStorage) -> None:
        await inner.put(KEY, b"theirs")
        upload = await over(inner, FaultScript().on("complete", DOWN)).start_multipart(KEY)
        part = await upload.upload_part(1, b"ours")
        with pytest.raises(AlreadyExists):
            await upload.complete([part], IfAbsent())

    @pytest.mark.parametrize(("fault", "error"), [(DOWN, NotFound), (MAYBE, Unavailable)])
    async def test_completion_of_a_missing_upload_fails(
        self, inner: MemoryStorage, fault: Fault, error: type[Exception]
    ) -> None:
        await inner.put(KEY, b"theirs")
        upload = await over(inner, FaultScript().on("complete", fault)).start_multipart(KEY)
        part = await upload.upload_part(1, b"ours")
        await inner.abort_upload(KEY, upload.upload_id)
        with pytest.raises(error):
            await upload.complete([part])


class TestUndecided:
    async def test_conflict_on_create_is_evaluated_again(self, inner: MemoryStorage) -> None:
        storage = over(inner, FaultScript().on("put_if_absent", FailBefore(WriteConflict())))
        await storage.put_if_absent(KEY, b"ours")
        assert await inner.get(KEY) == b"ours"

    async def test_conflict_on_swap_is_evaluated_again(self, inner: MemoryStorage) -> None:
        first = await inner.put(KEY, b"first")
        storage = over(inner, FaultScript().on("put_if_match", FailBefore(WriteConflict())))
        await storage.put_if_match(KEY, b"ours", first.etag)
        assert await inner.get(KEY) == b"ours"

    async def test_conflict_on_completion_is_not_repeated(self, inner: MemoryStorage) -> None:
        first = await inner.put(KEY, b"first")
        script = FaultScript().on("complete", FailBefore(WriteConflict()))
        upload = await over(inner, script).start_multipart(KEY)
        part = await upload.upload_part(1, b"ours")
        with pytest.raises(WriteConflict):
            await upload.complete([part], IfMatch(first.etag))
        assert script.calls("complete") == 1

    async def test_last_error_is_raised_after_the_last_attempt(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("put_if_absent", LOST)
        with pytest.raises(Unavailable):
            await over(inner, script, attempts=1).put_if_absent(KEY, b"ours")

    async def test_full_store_is_not_retried(self, inner: MemoryStorage) -> None:
        script = FaultScript().always("put", FailBefore(StorageFull()))
        with pytest.raises(StorageFull):
            await over(inner, script).put(KEY, b"x")
        assert script.calls("put") == 1


class TestReading:
    async def test_listing_resumes_after_the_last_key(self, inner: MemoryStorage) -> None:
        await put_all(inner, "abcde")
        broken: list[Fault] = [FailPartway(Unavailable(), 2), DOWN, FailPartway(Unavailable(), 1)]
        script = FaultScript().on("list_prefix", *broken)
        assert await keys_of(over(inner, script)) == ["a", "b", "c", "d", "e"]
        assert script.calls("list_prefix") == 4

    async def test_progress_gives_a_listing_new_attempts(self, inner: MemoryStorage) -> None:
        await put_all(inner, "abcdef")
        script = FaultScript().always("list_prefix", FailPartway(Unavailable(), 1))
        seen: list[str] = []
        # Each attempt returns one more key; the last one fails without consequence.
        async for head in over(inner, script, attempts=2).list_prefix():
            seen.append(head.key)
        assert seen == list("abcdef")

    async def test_stream_is_retried_before_its_first_piece(self, inner: MemoryStorage) -> None:
        await inner.put(KEY, b"body")
        assert await streamed(over(inner, FaultScript().on("stream", DOWN, DOWN)), KEY) == b"body"

    async def test_broken_stream_is_not_resumed(self, inner: MemoryStorage) -> None:
        # The rest may belong to another version, which must not be mixed.
        await inner.put(KEY, b"x" * 600_000)
        script = FaultScript().on("stream", FailPartway(Unavailable(), 300_000))
        with pytest.raises(Unavailable):
            await streamed(over(inner, script), KEY)
        assert script.calls("stream") == 1

    async def test_broken_batch_is_repeated_completely(self, inner: MemoryStorage) -> None:
        await put_all(inner, "abc")
        await over(inner, FaultScript().on("delete_many", FailPartway(Unavailable(), 1))).delete_many(
            [Key("a"), Key("b")]
        )
        assert await keys_of(inner) == ["c"]

    async def test_broken_list_of_uploads_returns_each_once(self, inner: MemoryStorage) -> None:
        for name in "abc":
            await inner.start_multipart(Key(name))
        script = FaultScript().on("list_uploads", FailPartway(Unavailable(), 2))
        assert [key for key, _ in await open_uploads(over(inner, script), "")] == ["a", "b", "c"]
