"""The steps with objects, on correct and incorrect stores."""

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


async def test_correct_store_passes_and_is_left_empty(memory: MemoryStorage) -> None:
    trial = ObjectSteps(memory)
    for step in (trial.put, trial.put_conditionally, trial.upload_multipart, trial.list_written, trial.get_range):
        assert (await step()).outcome is StepOutcome.PASSED
    assert await names(memory) == [LARGE, SMALL]
    assert (await trial.delete()).outcome is StepOutcome.PASSED
    assert await names(memory) == []
    assert [upload async for upload in memory.list_uploads()] == []
    assert await trial.clean_up() == []


async def test_keys_of_other_steps_are_removed(memory: MemoryStorage) -> None:
    trial = ObjectSteps(memory)
    await trial.put()
    trial.track(Key("elsewhere"))
    await memory.put(Key("elsewhere"), b"")
    await trial.delete()
    assert await names(memory) == []


async def test_disabled_conditional_writes_are_skipped(memory: MemoryStorage) -> None:
    found = await ObjectSteps(memory, conditional_writes=False).put_conditionally()
    assert found.outcome is StepOutcome.SKIPPED
    assert await names(memory) == []


@pytest.mark.parametrize("step", ["upload_part", "complete"])
async def test_failed_upload_is_aborted(memory: MemoryStorage, step: str) -> None:
    script = FaultScript().on(step, FailBefore(Unavailable("gone")))
    trial = ObjectSteps(FaultyStorage(memory, script))
    with pytest.raises(Unavailable):
        await trial.upload_multipart()
    assert [upload async for upload in memory.list_uploads()] == []


async def test_object_of_a_lost_response_is_removed(memory: MemoryStorage) -> None:
    trial = ObjectSteps(FaultyStorage(memory, FaultScript().on("put", FailAfter(Unavailable("lost")))))
    with pytest.raises(Unavailable):
        await trial.put()
    assert await names(memory) == [SMALL]
    assert await trial.clean_up() == []
    assert await names(memory) == []


async def test_unremovable_objects_are_reported(memory: MemoryStorage) -> None:
    denied = FailBefore(AccessDenied("no"))
    script = FaultScript().always("delete", denied).always("delete_many", denied)
    trial = ObjectSteps(FaultyStorage(memory, script))
    await trial.put()
    with pytest.raises(AccessDenied):
        await trial.delete()
    assert await trial.clean_up() == [SMALL]


async def test_unwritten_objects_are_not_reported_as_left(memory: MemoryStorage) -> None:
    denied = FailBefore(AccessDenied("no"))
    script = FaultScript()
    for operation in ("put", "delete", "head"):
        script.always(operation, denied)
    trial = ObjectSteps(FaultyStorage(memory, script))
    with pytest.raises(AccessDenied):
        await trial.put()
    assert await trial.clean_up() == []


class Defective(MemoryStorage):
    """A store with one defect."""

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
            await super().delete_many(keys)  # type: ignore[arg-type]  # passed through


@pytest.mark.parametrize(
    ("about", "step", "message"),
    [
        ("get", "put", "differs from the one written"),
        ("range", "get_range", "differ from those written"),
        ("conditions", "put_conditionally", "If-None-Match is ignored"),
        ("list", "list_written", "lacks written objects"),
        ("delete", "delete", "still listed"),
    ],
)
async def test_incorrect_store_fails(about: str, step: str, message: str) -> None:
    trial = ObjectSteps(Defective(about))
    if step != "put":
        await trial.put()
    with pytest.raises((StepFailed, LakebedError), match=message):
        await getattr(trial, step)()


async def test_credentials_that_exceed_their_directory_fail(memory: MemoryStorage) -> None:
    await memory.put(SMALL, b"outside")
    with pytest.raises(StepFailed, match=r"could read small, delete small, list all, write scope10/one, write outside"):
        await check_confinement(memory, INSIDE, outside=SMALL, beside=(BESIDE, OUTSIDE))


async def test_credentials_without_access_to_their_directory_fail(memory: MemoryStorage) -> None:
    closed = FaultyStorage(memory, FaultScript().always("put", FailBefore(AccessDenied("no"))))
    with pytest.raises(StepFailed, match="cannot access their directory"):
        await check_confinement(closed, INSIDE, outside=SMALL, beside=())


async def test_store_failure_is_not_an_access_denial(memory: MemoryStorage) -> None:
    failing = FaultyStorage(memory, FaultScript().on("get", FailBefore(Unavailable("down")), at=2))
    with pytest.raises(StepFailed, match="cannot test access outside"):
        await check_confinement(failing, INSIDE, outside=SMALL, beside=())
