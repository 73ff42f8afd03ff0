"""What was handed out is kept, found again, and forgotten in time; on SQLite and on PostgreSQL."""

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
def kept(store: MetaStore) -> DelegationLog:
    return DelegationLog(store)


async def keep(kept: DelegationLog, *made: DelegationRecord) -> None:
    for one in made:
        kept.enqueue(one)
    await kept.flush()


async def names(kept: DelegationLog, asked: DelegationFilter, *, before: int = NEWEST, limit: int = 100) -> list[str]:
    return [one.id for one in await kept.list(asked, before=before, limit=limit)]


async def test_what_was_kept_is_found_whole(kept: DelegationLog) -> None:
    signed = replace(
        VENDED,
        id="KEY2",
        purpose=replace(VENDED.purpose, kind=DelegationKind.SIGNED, method="GET", target="lake/tables/T1/f?x=1"),
        writes=False,
    )
    for one in (VENDED, signed):
        await keep(kept, one)
        found = await kept.find(one.id)
        assert replace(found, seq=0) == one
    with pytest.raises(NotFound):
        await kept.find("KEY3")


async def test_records_that_wait_are_written_together_and_once(kept: DelegationLog) -> None:
    woken: list[str] = []
    kept.wake = lambda: woken.append("now")
    for number in range(501):
        kept.enqueue(replace(VENDED, id=f"KEY{number:03}"))
    assert len(woken) == 501
    assert await names(kept, DelegationFilter()) == []
    assert await kept.flush() == 501
    assert await kept.flush() == 0
    assert await names(kept, DelegationFilter(), limit=2) == ["KEY500", "KEY499"]
    # As after an answer that was lost.
    kept.enqueue(replace(VENDED, id="KEY500"))
    assert await kept.flush() == 1
    assert len(await names(kept, DelegationFilter(), limit=1000)) == 501


async def test_no_more_records_wait_than_may(store: MetaStore) -> None:
    kept = DelegationLog(store, max_waiting=1)
    kept.enqueue(VENDED)
    with pytest.raises(Unavailable, match="records cannot be written"):
        kept.enqueue(replace(VENDED, id="KEY2"))
    await kept.flush()
    kept.enqueue(replace(VENDED, id="KEY2"))


async def test_lists_are_newest_first_and_go_on_where_they_were(kept: DelegationLog) -> None:
    for number in range(5):
        await keep(kept, replace(VENDED, id=f"KEY{number}"))
    first = await kept.list(DelegationFilter(), before=NEWEST, limit=2)
    assert [one.id for one in first] == ["KEY4", "KEY3"]
    assert await names(kept, DelegationFilter(), before=first[-1].seq) == ["KEY2", "KEY1", "KEY0"]


async def test_lists_are_of_what_was_asked_for(kept: DelegationLog) -> None:
    await keep(kept, VENDED)
    await keep(kept, replace(VENDED, id="OTHERS", principal="eve"))
    await keep(kept, replace(VENDED, id="LATER", purpose=replace(VENDED.purpose, request_id="R2")))
    await keep(kept, replace(VENDED, id="NEIGHBOUR", purpose=replace(VENDED.purpose, name="t10")))
    await keep(kept, replace(VENDED, id="POND", purpose=replace(VENDED.purpose, catalog="pond", namespace="a")))
    for asked, found in (
        (DelegationFilter(principal="eve"), ["OTHERS"]),
        (DelegationFilter(request_id="R2"), ["LATER"]),
        (DelegationFilter(catalog="pond"), ["POND"]),
        (DelegationFilter(catalog="lake", namespace="a\x1fb", name="t"), ["LATER", "OTHERS", "KEY1"]),
        (DelegationFilter(catalog="lake", namespace="a"), []),
        (DelegationFilter(principal="bob", catalog="lake", namespace="a\x1fb"), ["NEIGHBOUR", "LATER", "KEY1"]),
    ):
        assert await names(kept, asked) == found


async def test_what_ended_long_ago_is_forgotten_with_what_was_done(kept: DelegationLog, store: MetaStore) -> None:
    clock = ManualClock()
    await keep(kept, VENDED)
    await keep(kept, replace(VENDED, id="KEY2", expires_ms=3_000))
    tally, read = AccessCounter(store, clock), DelegatedAccesses(store)
    for key in ("KEY1", "KEY2"):
        place = AccessGroup("lake", "f", key, "GetObject", 200)
        tally.count(place, CredentialRecipient("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R")
    await tally.flush()
    assert await kept.delete_expired(before_ms=2_000) == 0
    assert await kept.delete_expired(before_ms=2_001) == 1
    assert await kept.delete_expired(before_ms=2_001) == 0
    assert await names(kept, DelegationFilter()) == ["KEY2"]
    left = await read.of_object("lake", "f", after=None, limit=10)
    assert [access.group.delegation for access in left] == ["KEY2"]


async def note(store: MetaStore, clock: ManualClock, *keys: str) -> None:
    tally = AccessCounter(store, clock)
    for key in keys:
        place = AccessGroup("lake", "f", key, "GetObject", 200)
        tally.count(place, CredentialRecipient("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R")
    await tally.flush()


async def used(store: MetaStore) -> list[str]:
    found = await DelegatedAccesses(store).of_object("lake", "f", after=None, limit=100)
    return [access.group.delegation for access in found]


async def test_what_was_done_with_keys_whose_record_was_lost_is_forgotten_too(
    kept: DelegationLog, store: MetaStore
) -> None:
    clock = ManualClock()
    await keep(kept, replace(VENDED, expires_ms=clock.now_ms() + 1))
    await note(store, clock, "KEY1", "LOST")
    life_ms = MAX_DELEGATION_SECONDS * 1000
    # However long they were good: none is good for longer than this after it was used.
    assert await kept.delete_unrecorded(before_ms=clock.now_ms() + life_ms) == 0
    assert await kept.delete_unrecorded(before_ms=clock.now_ms() + life_ms + 1) == 1
    assert await used(store) == ["KEY1"]


async def test_all_keys_that_were_used_are_looked_at_some_at_a_time(
    kept: DelegationLog, store: MetaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegations, "_DELETE_BATCH", 2)
    clock = ManualClock()
    await keep(kept, *(replace(VENDED, id=f"KEY{number}") for number in (0, 1, 3)))
    await note(store, clock, *(f"KEY{number}" for number in range(5)))
    late_ms = clock.now_ms() + MAX_DELEGATION_SECONDS * 1000 + 1
    assert [await kept.delete_unrecorded(before_ms=late_ms) for _ in range(3)] == [0, 1, 1]
    assert await used(store) == ["KEY0", "KEY1", "KEY3"]
    # From the beginning again.
    await note(store, clock, "KEY00")
    assert await kept.delete_unrecorded(before_ms=late_ms) == 1
