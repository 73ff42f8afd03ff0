from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    CredentialsExpired,
    LakebedError,
    NoSuchTable,
    Throttled,
    Unauthenticated,
    Unavailable,
    Vetoed,
)
from lakebed.governance import refusal_records
from lakebed.governance.refusal_records import (
    RefusalEvent,
    RefusalOutcome,
    RefusalRecord,
    RefusalRecorder,
    outcome_of,
    shortened,
)
from lakebed.meta.outbox import Outbox, OutboxEntry
from lakebed.meta.seam import MetaStore
from tests.governance.failing_store import FailingStore
from tests.meta.stores import open_migrated_file


@pytest.fixture
async def meta(tmp_path: Path) -> AsyncIterator[MetaStore]:
    store = await open_migrated_file(tmp_path / "meta.db")
    yield store
    await store.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def recorder(meta: MetaStore, clock: ManualClock) -> RefusalRecorder:
    return RefusalRecorder(meta, Outbox(meta), clock)


AN_ATTEMPT = RefusalRecord(
    edge="catalog",
    route="dropTable",
    operation="DROP_TABLE",
    subject="lake/sales/orders",
    principal="anna",
    claimed="",
    source_ip="10.0.0.1",
    request_id="R1",
    status=403,
    outcome=RefusalOutcome.DENIED,
    reason="no identity policy allows it",
)


async def written(meta: MetaStore) -> list[OutboxEntry]:
    return await Outbox(meta).read_after(meta, 0, 10_000)


def payload(entry: OutboxEntry) -> RefusalEvent:
    return msgspec.msgpack.decode(entry.event.payload, type=RefusalEvent)


@pytest.mark.parametrize(
    ("error", "status", "changes", "outcome"),
    [
        (Vetoed("no"), 403, True, RefusalOutcome.VETOED),
        (AccessDenied("no"), 403, False, RefusalOutcome.DENIED),
        (AccessDenied("hidden"), 404, False, RefusalOutcome.DENIED),
        (Unauthenticated("who"), 401, False, RefusalOutcome.DENIED),
        (CredentialsExpired("old"), 401, True, RefusalOutcome.DENIED),
        (LakebedError("a wire's own"), 403, False, RefusalOutcome.DENIED),
        (Throttled("slow"), 429, False, RefusalOutcome.LIMITED),
        (AlreadyExists("there"), 409, True, RefusalOutcome.FAILED),
        (Unavailable("down"), 503, False, RefusalOutcome.FAILED),
        (NoSuchTable("gone"), 404, True, RefusalOutcome.FAILED),
        (NoSuchTable("gone"), 404, False, None),
        (LakebedError("not modified"), 304, False, None),
    ],
)
def test_outcome_of_errors(error: LakebedError, status: int, changes: bool, outcome: RefusalOutcome | None) -> None:
    assert outcome_of(error, status, changes=changes) is outcome


async def test_event_contains_principal_operation_address_and_reason(
    recorder: RefusalRecorder, meta: MetaStore, clock: ManualClock
) -> None:
    recorder.record(AN_ATTEMPT)
    assert await recorder.write() == 1
    (entry,) = await written(meta)
    assert (entry.event.kind, entry.event.subject) == ("AttemptDenied", "lake/sales/orders")
    assert entry.event.occurred_ms == clock.now_ms()
    assert payload(entry) == RefusalEvent(
        edge="catalog",
        route="dropTable",
        operation="DROP_TABLE",
        principal="anna",
        source_ip="10.0.0.1",
        request_id="R1",
        status=403,
        reason="no identity policy allows it",
    )


async def test_repetitions_are_counted_and_written_once_per_window(
    recorder: RefusalRecorder, meta: MetaStore, clock: ManualClock
) -> None:
    for number in range(4):
        recorder.record(replace(AN_ATTEMPT, request_id=f"R{number}", reason=f"reason {number}"))
        await recorder.write()
        clock.advance(10)
    assert len(await written(meta)) == 1
    clock.advance(30)
    assert await recorder.write() == 1
    first, again = await written(meta)
    assert payload(first).request_id == "R0"
    start = first.event.occurred_ms
    repeated = payload(again)
    assert (repeated.count, repeated.request_id, repeated.reason) == (3, "R3", "reason 3")
    assert (repeated.first_ms, repeated.last_ms) == (start + 10_000, start + 30_000)
    # The next attempt starts a new window.
    recorder.record(AN_ATTEMPT)
    assert await recorder.write() == 1


async def test_records_per_caller_are_limited(recorder: RefusalRecorder, meta: MetaStore, clock: ManualClock) -> None:
    for number in range(5000):
        recorder.record(replace(AN_ATTEMPT, principal="", claimed="mallory", subject=f"lake/{number}"))
    recorder.record(AN_ATTEMPT)
    await recorder.write()
    entries = await written(meta)
    assert len(entries) == refusal_records.MAX_KINDS_PER_CALLER + 1
    assert payload(entries[-1]).principal == "anna"
    clock.advance(61)
    assert await recorder.write() == 1
    last = (await written(meta))[-1]
    assert (last.event.kind, payload(last).count) == ("AttemptsUncounted", 5000 - refusal_records.MAX_KINDS_PER_CALLER)


async def test_records_of_all_callers_are_limited(recorder: RefusalRecorder, meta: MetaStore) -> None:
    for number in range(3000):
        recorder.record(replace(AN_ATTEMPT, principal=f"p{number}"))
    await recorder.write()
    assert len(await written(meta)) == refusal_records.MAX_KINDS


async def test_throttled_request_is_recorded_as_rate_limited(recorder: RefusalRecorder, meta: MetaStore) -> None:
    recorder.record(replace(AN_ATTEMPT, outcome=RefusalOutcome.LIMITED, route="getToken", operation="", status=429))
    await recorder.write()
    (entry,) = await written(meta)
    assert (entry.event.kind, payload(entry).operation) == ("AttemptLimited", "LIMIT_REQUEST_RATE")


async def test_records_are_kept_while_the_store_fails(meta: MetaStore, clock: ManualClock) -> None:
    failing = FailingStore(meta)
    recorder = RefusalRecorder(failing, Outbox(meta), clock)
    recorder.record(AN_ATTEMPT)
    recorder.record(AN_ATTEMPT)
    with pytest.raises(Unavailable):
        await recorder.write()
    clock.advance(61)
    with pytest.raises(Unavailable):
        await recorder.write()
    recorder.record(AN_ATTEMPT)
    recorder.record(replace(AN_ATTEMPT, principal="bert"))
    failing.is_down = False
    await recorder.write(ending=True)
    counts = [(payload(entry).principal, payload(entry).count) for entry in await written(meta)]
    assert counts == [("anna", 1), ("bert", 1), ("anna", 2)]


async def test_recorder_writes_in_the_background_and_flushes_when_cancelled(
    recorder: RefusalRecorder, meta: MetaStore
) -> None:
    running = asyncio.create_task(recorder.run())
    recorder.record(AN_ATTEMPT)
    while not await written(meta):
        await asyncio.sleep(0)
    recorder.record(AN_ATTEMPT)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [payload(entry).count for entry in await written(meta)] == [1, 1]


def test_client_texts_are_shortened_and_escaped() -> None:
    oversized = replace(AN_ATTEMPT, subject="a\0b" + "x" * 5000, reason="\udcff", claimed="k" * 2000)
    stored = shortened(oversized)
    assert stored.subject.startswith("a\\0bxx")
    assert len(stored.subject) <= refusal_records.MAX_CHARS + 1
    assert stored.reason == "\\udcff"
    assert len(stored.claimed) == refusal_records.MAX_CHARS
