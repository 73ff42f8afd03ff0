"""Delegations are recorded, found and deleted after their retention, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import NotFound, Unavailable
from lakebed.governance.credentials.sessions import MAX_DELEGATION_SECONDS
from lakebed.governance.delegation import delegations
from lakebed.governance.delegation.delegated_accesses import (
    AccessCounter,
    AccessGroup,
    CredentialRecipient,
    DelegatedAccesses,
)
from lakebed.governance.delegation.delegations import (
    DelegationFilter,
    DelegationKind,
    DelegationLog,
    DelegationPurpose,
    DelegationRecord,
)
from lakebed.meta.seam import MetaStore
from tests.meta.conftest import address
from tests.meta.stores import open_migrated

__all__ = ["address"]

NEWEST = (1 << 63) - 1
VENDED = DelegationRecord(
    "KEY1",
    DelegationPurpose(DelegationKind.VENDED, "R1", "192.0.2.1", "lake", "a\x1fb", "t"),
    "bob",
    "U1",
    "arn:aws:iam::1:user/bob",
    "BOBSKEY",
    "T1",
    "lake",
    ("tables/T1/", "far/ü*?/"),
    True,
    1_000,
    2_000,
)


@pytest.fixture
async def store(address: str) -> AsyncIterator[MetaStore]:
    opened = await open_migrated(address)
    yield opened
    await opened.close()


@pytest.fixture
def log(store: MetaStore) -> DelegationLog:
    return DelegationLog(store)


async def record(log: DelegationLog, *records: DelegationRecord) -> None:
    for one in records:
        log.enqueue(one)
    await log.flush()


async def names(log: DelegationLog, query: DelegationFilter, *, before: int = NEWEST, limit: int = 100) -> list[str]:
    return [one.id for one in await log.list(query, before=before, limit=limit)]


async def test_recorded_delegation_is_found(log: DelegationLog) -> None:
    signed = replace(
        VENDED,
        id="KEY2",
        purpose=replace(VENDED.purpose, kind=DelegationKind.SIGNED, method="GET", target="lake/tables/T1/f?x=1"),
        writes=False,
    )
    for one in (VENDED, signed):
        await record(log, one)
        found = await log.find(one.id)
        assert replace(found, seq=0) == one
    with pytest.raises(NotFound):
        await log.find("KEY3")


async def test_pending_records_are_written_once_in_batches(log: DelegationLog) -> None:
    woken: list[str] = []
    log.wake = lambda: woken.append("now")
    for number in range(501):
        log.enqueue(replace(VENDED, id=f"KEY{number:03}"))
    assert len(woken) == 501
    assert await names(log, DelegationFilter()) == []
    assert await log.flush() == 501
    assert await log.flush() == 0
    assert await names(log, DelegationFilter(), limit=2) == ["KEY500", "KEY499"]
    # As after a commit whose response was lost.
    log.enqueue(replace(VENDED, id="KEY500"))
    assert await log.flush() == 1
    assert len(await names(log, DelegationFilter(), limit=1000)) == 501


async def test_number_of_pending_records_is_limited(store: MetaStore) -> None:
    log = DelegationLog(store, max_waiting=1)
    log.enqueue(VENDED)
    with pytest.raises(Unavailable, match="records cannot be written"):
        log.enqueue(replace(VENDED, id="KEY2"))
    await log.flush()
    log.enqueue(replace(VENDED, id="KEY2"))


async def test_lists_are_newest_first_and_contiguous(log: DelegationLog) -> None:
    for number in range(5):
        await record(log, replace(VENDED, id=f"KEY{number}"))
    first = await log.list(DelegationFilter(), before=NEWEST, limit=2)
    assert [one.id for one in first] == ["KEY4", "KEY3"]
    assert await names(log, DelegationFilter(), before=first[-1].seq) == ["KEY2", "KEY1", "KEY0"]


async def test_lists_are_filtered(log: DelegationLog) -> None:
    await record(log, VENDED)
    await record(log, replace(VENDED, id="OTHERS", principal="eve"))
    await record(log, replace(VENDED, id="LATER", purpose=replace(VENDED.purpose, request_id="R2")))
    await record(log, replace(VENDED, id="NEIGHBOUR", purpose=replace(VENDED.purpose, name="t10")))
    await record(log, replace(VENDED, id="POND", purpose=replace(VENDED.purpose, catalog="pond", namespace="a")))
    for query, found in (
        (DelegationFilter(principal="eve"), ["OTHERS"]),
        (DelegationFilter(request_id="R2"), ["LATER"]),
        (DelegationFilter(catalog="pond"), ["POND"]),
        (DelegationFilter(catalog="lake", namespace="a\x1fb", name="t"), ["LATER", "OTHERS", "KEY1"]),
        (DelegationFilter(catalog="lake", namespace="a"), []),
        (DelegationFilter(principal="bob", catalog="lake", namespace="a\x1fb"), ["NEIGHBOUR", "LATER", "KEY1"]),
    ):
        assert await names(log, query) == found


async def test_expired_records_are_deleted_with_their_accesses(log: DelegationLog, store: MetaStore) -> None:
    clock = ManualClock()
    await record(log, VENDED)
    await record(log, replace(VENDED, id="KEY2", expires_ms=3_000))
    tally, read = AccessCounter(store, clock), DelegatedAccesses(store)
    for key in ("KEY1", "KEY2"):
        place = AccessGroup("lake", "f", key, "GetObject", 200)
        tally.count(place, CredentialRecipient("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R")
    await tally.flush()
    assert await log.delete_expired(before_ms=2_000) == 0
    assert await log.delete_expired(before_ms=2_001) == 1
    assert await log.delete_expired(before_ms=2_001) == 0
    assert await names(log, DelegationFilter()) == ["KEY2"]
    left = await read.of_object("lake", "f", after=None, limit=10)
    assert [access.group.delegation for access in left] == ["KEY2"]


async def count_request(store: MetaStore, clock: ManualClock, *keys: str) -> None:
    tally = AccessCounter(store, clock)
    for key in keys:
        place = AccessGroup("lake", "f", key, "GetObject", 200)
        tally.count(place, CredentialRecipient("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R")
    await tally.flush()


async def used(store: MetaStore) -> list[str]:
    found = await DelegatedAccesses(store).of_object("lake", "f", after=None, limit=100)
    return [access.group.delegation for access in found]


async def test_accesses_without_a_record_are_deleted(log: DelegationLog, store: MetaStore) -> None:
    clock = ManualClock()
    await record(log, replace(VENDED, expires_ms=clock.now_ms() + 1))
    await count_request(store, clock, "KEY1", "LOST")
    life_ms = MAX_DELEGATION_SECONDS * 1000
    # Their expiry is unknown, but at most this long after the last use.
    assert await log.delete_unrecorded(before_ms=clock.now_ms() + life_ms) == 0
    assert await log.delete_unrecorded(before_ms=clock.now_ms() + life_ms + 1) == 1
    assert await used(store) == ["KEY1"]


async def test_unrecorded_accesses_are_swept_in_batches(
    log: DelegationLog, store: MetaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegations, "_DELETE_BATCH", 2)
    clock = ManualClock()
    await record(log, *(replace(VENDED, id=f"KEY{number}") for number in (0, 1, 3)))
    await count_request(store, clock, *(f"KEY{number}" for number in range(5)))
    late_ms = clock.now_ms() + MAX_DELEGATION_SECONDS * 1000 + 1
    assert [await log.delete_unrecorded(before_ms=late_ms) for _ in range(3)] == [0, 1, 1]
    assert await used(store) == ["KEY0", "KEY1", "KEY3"]
    # The next call starts over.
    await count_request(store, clock, "KEY00")
    assert await log.delete_unrecorded(before_ms=late_ms) == 1
