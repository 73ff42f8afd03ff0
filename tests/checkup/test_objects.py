"""The steps with objects, over an honest store and over stores that lie."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakebed.checkup.model import StepFailed, StepOutcome
from lakebed.checkup.objects import LARGE, SMALL, ObjectSteps
from lakebed.checkup.scope import BESIDE, INSIDE, OUTSIDE, check_confinement
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, LakebedError, Unavailable
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectHead, ObjectStorage, ObjectVersion
from tests.fixtures.faulty_storage import FailAfter, FailBefore, FaultScript, FaultyStorage


@pytest.fixture
def memory() -> MemoryStorage:
    return MemoryStorage(ManualClock())


async def names(storage: ObjectStorage) -> list[str]:
    return [found.key async for found in storage.list_prefix()]


async def test_an_honest_store_passes_and_is_empty_afterwards(memory: MemoryStorage) -> None:
    trial = ObjectSteps(memory)
    for step in (trial.put, trial.put_conditionally, trial.upload_multipart, trial.list_written, trial.get_range):
        assert (await step()).outcome is StepOutcome.PASSED
    assert await names(memory) == [LARGE, SMALL]
    assert (await trial.delete()).outcome is StepOutcome.PASSED
    assert await names(memory) == []
    assert [upload async for upload in memory.list_uploads()] == []
    assert await trial.clean_up() == []


async def test_what_another_step_wrote_is_removed_too(memory: MemoryStorage) -> None:
    trial = ObjectSteps(memory)
    await trial.put()
    trial.track(Key("elsewhere"))
    await memory.put(Key("elsewhere"), b"")
    await trial.delete()
    assert await names(memory) == []


async def test_conditions_that_were_switched_off_are_not_tried(memory: MemoryStorage) -> None:
    found = await ObjectSteps(memory, conditional_writes=False).put_conditionally()
    assert found.outcome is StepOutcome.SKIPPED
    assert await names(memory) == []


@pytest.mark.parametrize("step", ["upload_part", "complete"])
async def test_an_upload_that_fails_is_given_up(memory: MemoryStorage, step: str) -> None:
    script = FaultScript().on(step, FailBefore(Unavailable("gone")))
    trial = ObjectSteps(FaultyStorage(memory, script))
    with pytest.raises(Unavailable):
        await trial.upload_multipart()
    assert [upload async for upload in memory.list_uploads()] == []


async def test_a_write_whose_answer_was_lost_is_cleaned_up(memory: MemoryStorage) -> None:
    trial = ObjectSteps(FaultyStorage(memory, FaultScript().on("put", FailAfter(Unavailable("lost")))))
    with pytest.raises(Unavailable):
        await trial.put()
    assert await names(memory) == [SMALL]
    assert await trial.clean_up() == []
    assert await names(memory) == []


async def test_what_cannot_be_removed_is_told(memory: MemoryStorage) -> None:
    denied = FailBefore(AccessDenied("no"))
    script = FaultScript().always("delete", denied).always("delete_many", denied)
    trial = ObjectSteps(FaultyStorage(memory, script))
    await trial.put()
    with pytest.raises(AccessDenied):
        await trial.delete()
    assert await trial.clean_up() == [SMALL]


async def test_what_was_never_written_is_not_said_to_be_left(memory: MemoryStorage) -> None:
    denied = FailBefore(AccessDenied("no"))
    script = FaultScript()
    for operation in ("put", "delete", "head"):
        script.always(operation, denied)
    trial = ObjectSteps(FaultyStorage(memory, script))
    with pytest.raises(AccessDenied):
        await trial.put()
    assert await trial.clean_up() == []


class Lying(MemoryStorage):
    """A store that is wrong about one thing."""

    def __init__(self, about: str) -> None:
        super().__init__(ManualClock())
        self._about = about

    async def get(self, key: Key) -> bytes:
        return b"other" if self._about == "get" else await super().get(key)

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        return (await super().get(key)) if self._about == "range" else await super().get_range(key, start, end)

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        if self._about == "conditions":
            return await super().put(key, body, metadata=metadata)
        return await super().put_if_absent(key, body, metadata=metadata)

    async def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        if self._about != "list":
            async for found in super().list_prefix(prefix, start_after):
                yield found

    async def delete_many(self, keys: object) -> None:
        if self._about != "delete":
            await super().delete_many(keys)  # type: ignore[arg-type]  # passed on as it came


@pytest.mark.parametrize(
    ("about", "step", "said"),
    [
        ("get", "put", "differs from the one written"),
        ("range", "get_range", "differ from those written"),
        ("conditions", "put_conditionally", "If-None-Match is ignored"),
        ("list", "list_written", "lacks written objects"),
        ("delete", "delete", "still listed"),
    ],
)
async def test_a_store_that_lies_is_found_out(about: str, step: str, said: str) -> None:
    trial = ObjectSteps(Lying(about))
    if step != "put":
        await trial.put()
    with pytest.raises((StepFailed, LakebedError), match=said):
        await getattr(trial, step)()


async def test_keys_that_open_more_than_their_directory_are_found_out(memory: MemoryStorage) -> None:
    await memory.put(SMALL, b"outside")
    with pytest.raises(StepFailed, match=r"could read small, delete small, list all, write scope10/one, write outside"):
        await check_confinement(memory, INSIDE, outside=SMALL, beside=(BESIDE, OUTSIDE))


async def test_keys_that_do_not_open_their_directory_are_found_out(memory: MemoryStorage) -> None:
    closed = FaultyStorage(memory, FaultScript().always("put", FailBefore(AccessDenied("no"))))
    with pytest.raises(StepFailed, match="cannot access their directory"):
        await check_confinement(closed, INSIDE, outside=SMALL, beside=())


async def test_a_store_that_fails_is_not_taken_for_one_that_refuses(memory: MemoryStorage) -> None:
    failing = FaultyStorage(memory, FaultScript().on("get", FailBefore(Unavailable("down")), at=2))
    with pytest.raises(StepFailed, match="cannot test access outside"):
        await check_confinement(failing, INSIDE, outside=SMALL, beside=())
