from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied
from lakebed.events.log import EventLog, EventPage, audit_trail
from lakebed.events.selection import ALL_EVENTS, parse_selection
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from tests.objects.stores import ROOT, opened_store, user

READER = user(
    "reader", b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"lakebed:ReadEvents","Resource":"*"}}'
)
AUDITOR = user(
    "auditor", b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"lakebed:ReadAudit","Resource":"*"}}'
)


@pytest.fixture
async def object_context(tmp_path: Path) -> AsyncIterator[ObjectContext]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as store:
        yield store.object_context


async def emit(object_context: ObjectContext, *kinds: str) -> None:
    async def work(tx: Transaction) -> None:
        for kind in kinds:
            await object_context.outbox.append(tx, OutboxEvent(kind, "subject", b"\x80", 1000))

    await object_context.meta.transact(work)


def kinds_of(page: EventPage) -> Sequence[str]:
    return [entry.event.kind for entry in page.entries]


async def test_next_page_continues_after_the_previous_one(object_context: ObjectContext) -> None:
    await emit(object_context, "A", "B", "C", "D", "E")
    log = EventLog(object_context)
    seen: list[str] = []
    after = 0
    while (page := await log.read(READER, ALL_EVENTS, after=after, limit=2)).entries:
        assert (page.first_seq, page.last_seq) == (1, 5)
        seen += kinds_of(page)
        after = page.next_after
    assert seen == ["A", "B", "C", "D", "E"]
    assert page.next_after == after == 5


async def test_skipped_events_are_not_scanned_again(object_context: ObjectContext) -> None:
    await emit(object_context, *["Noise"] * 3, "Wanted:1", *["Noise"] * 3, "Wanted:2", "Noise")
    log = EventLog(object_context)
    chosen = parse_selection("Wanted:*")
    first = await log.read(READER, chosen, after=0, limit=1)
    assert (kinds_of(first), first.next_after) == (["Wanted:1"], 4)
    second = await log.read(READER, chosen, after=first.next_after, limit=1)
    assert (kinds_of(second), second.next_after) == (["Wanted:2"], 8)
    nothing = await log.read(READER, chosen, after=second.next_after, limit=1)
    assert (kinds_of(nothing), nothing.next_after, nothing.last_seq) == ([], 9, 9)


async def test_scan_for_rare_events_is_bounded_and_resumable(
    object_context: ObjectContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.events.log._MAX_SCANNED", 4)
    monkeypatch.setattr("lakebed.events.log.MAX_EVENTS", 2)
    await emit(object_context, *["Noise"] * 5, "Wanted")
    log = EventLog(object_context)
    page = await log.read(READER, parse_selection("Wanted"), after=0, limit=1)
    assert (kinds_of(page), page.next_after) == ([], 4)
    page = await log.read(READER, parse_selection("Wanted"), after=page.next_after, limit=1)
    assert (kinds_of(page), page.next_after) == (["Wanted"], 6)


async def test_empty_log_and_cursor_beyond_its_end_return_nothing(object_context: ObjectContext) -> None:
    log = EventLog(object_context)
    assert await log.read(READER, ALL_EVENTS, after=0, limit=10) == EventPage([], 0, 0, 0)
    await emit(object_context, "A")
    assert await log.read(READER, ALL_EVENTS, after=7, limit=10) == EventPage([], 7, 1, 1)


async def test_limit_zero_returns_the_bounds_of_the_log(object_context: ObjectContext) -> None:
    await emit(object_context, "A", "B")
    assert await EventLog(object_context).read(READER, ALL_EVENTS, after=0, limit=0) == EventPage([], 0, 2, 1)


async def test_first_seq_follows_trimming(object_context: ObjectContext) -> None:
    await emit(object_context, "A", "B", "C")
    await object_context.outbox.trim(occurred_before_ms=2000, limit=2)
    page = await EventLog(object_context).read(READER, ALL_EVENTS, after=0, limit=10)
    assert (kinds_of(page), page.first_seq) == (["C"], 3)


async def test_audit_trail_has_users_keys_and_policies(object_context: ObjectContext) -> None:
    await emit(
        object_context,
        "UserCreated",
        "ObjectCreated:Put",
        "AccessKeyCreated",
        "TableUpdated",
        "PolicyAttached",
        "CatalogPolicyDropped",
    )
    page = await audit_trail(object_context).read(AUDITOR, ALL_EVENTS, after=0, limit=10)
    assert kinds_of(page) == ["UserCreated", "AccessKeyCreated", "PolicyAttached", "CatalogPolicyDropped"]
    narrow = await audit_trail(object_context).read(AUDITOR, parse_selection("Policy*,Table*"), after=0, limit=10)
    assert kinds_of(narrow) == ["PolicyAttached"]


async def test_each_permission_covers_its_own_log(object_context: ObjectContext) -> None:
    for log, denied in ((EventLog(object_context), AUDITOR), (audit_trail(object_context), READER)):
        with pytest.raises(AccessDenied, match="lakebed:Read"):
            await log.read(denied, ALL_EVENTS, after=0, limit=10)
        await log.read(ROOT, ALL_EVENTS, after=0, limit=10)


async def test_new_event_ends_the_wait(object_context: ObjectContext) -> None:
    log = EventLog(object_context)
    waiting = asyncio.create_task(log.wait_for_event(0, 30))
    await asyncio.sleep(0)
    await emit(object_context, "A")
    assert await waiting
    assert not await log.wait_for_event(1, 0)
