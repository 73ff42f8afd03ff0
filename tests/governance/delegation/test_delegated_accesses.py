"""The use of vended credentials is counted, written once, and kept while the store fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import NotFound, Unavailable
from lakebed.governance.delegation import delegated_accesses
from lakebed.governance.delegation.delegated_accesses import (
    AccessCounter,
    AccessGroup,
    CredentialRecipient,
    DelegatedAccess,
    DelegatedAccesses,
    DelegationTraceWriter,
)
from lakebed.governance.delegation.delegations import DelegationLog
from lakebed.meta.seam import MetaStore
from tests.governance.failing_store import FailingStore
from tests.meta.conftest import address
from tests.meta.stores import open_migrated

from .test_delegations import VENDED

__all__ = ["address"]

GROUP = AccessGroup("lake", "tables/t/f", "KEY", "GetObject", 206)
RECIPIENT = CredentialRecipient("bob", "T1", "R0")
places = st.builds(
    AccessGroup,
    st.sampled_from(["lake", "pond"]),
    st.sampled_from(["f", "g", ""]),
    st.sampled_from(["KEY1", "KEY2"]),
    st.sampled_from(["GetObject", "PutObject"]),
    st.sampled_from([200, 403]),
)


@pytest.fixture
async def store(address: str) -> AsyncIterator[MetaStore]:
    opened = await open_migrated(address)
    yield opened
    await opened.close()


def count_request(counter: AccessCounter, group: AccessGroup = GROUP, request_id: str = "R1", sent: int = 10) -> None:
    counter.count(group, RECIPIENT, received_bytes=1, sent_bytes=sent, request_id=request_id)


async def all_of(store: MetaStore, delegation: str = "KEY") -> list[DelegatedAccess]:
    return await DelegatedAccesses(store).of_delegation(delegation, after=None, limit=1000)


async def test_equal_requests_share_a_row(store: MetaStore) -> None:
    clock = ManualClock(1_000)
    counter = AccessCounter(store, clock)
    count_request(counter, request_id="R1")
    clock.advance(1)
    count_request(counter, request_id="R2", sent=5)
    count_request(counter, GROUP._replace(status=403), request_id="R3")
    assert await counter.flush() == 2
    clock.advance(1)
    count_request(counter, request_id="R4")
    await counter.flush()
    assert await all_of(store) == [
        DelegatedAccess(GROUP, 3, 3, 25, 1_000, 3_000, "R4", RECIPIENT),
        DelegatedAccess(GROUP._replace(status=403), 1, 1, 10, 2_000, 2_000, "R3", RECIPIENT),
    ]
    assert await counter.flush() == 0


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(places, st.integers(0, 2**40), st.booleans()), max_size=30), st.integers(0, 10**6))
async def test_rows_contain_all_counted_requests(
    store: MetaStore, noted: list[tuple[AccessGroup, int, bool]], salt: int
) -> None:
    """Compared with a counter; each example has its own keys."""
    counter = AccessCounter(store, ManualClock())
    requests: Counter[AccessGroup] = Counter()
    sent: Counter[AccessGroup] = Counter()
    before = Counter({access.group: access.requests for access in await _everything(store)})
    sent_before = Counter({access.group: access.sent_bytes for access in await _everything(store)})
    for group, size, is_flushed in noted:
        count_request(counter, group, sent=size)
        requests[group] += 1
        sent[group] += size
        if is_flushed:
            await counter.flush()
    await counter.flush()
    after = await _everything(store)
    assert Counter({access.group: access.requests for access in after}) == before + requests
    assert {access.group: access.sent_bytes for access in after if access.group in requests} == {
        group: sent_before[group] + sent[group] for group in requests
    }


async def _everything(store: MetaStore) -> list[DelegatedAccess]:
    return [access for key in ("KEY1", "KEY2") for access in await all_of(store, key)]


async def test_counts_are_kept_while_the_store_fails(store: MetaStore) -> None:
    failing = FailingStore(store)
    counter = AccessCounter(failing, ManualClock())
    count_request(counter, request_id="R1")
    with pytest.raises(Unavailable):
        await counter.flush()
    count_request(counter, request_id="R2")
    count_request(counter, GROUP._replace(key="g"))
    failing.is_down = False
    assert await counter.flush() == 2
    (_, first) = await all_of(store)
    assert (first.requests, first.last_request_id) == (2, "R2")


async def test_buffer_is_limited(store: MetaStore) -> None:
    failing = FailingStore(store)
    counter = AccessCounter(failing, ManualClock(), max_rows=2)
    for key in ("a", "b", "c"):
        count_request(counter, GROUP._replace(key=key))
    with pytest.raises(Unavailable):
        await counter.flush()
    for key in ("a", "d"):
        count_request(counter, GROUP._replace(key=key))
    failing.is_down = False
    assert await counter.flush() == 2
    assert [(one.group.key, one.requests) for one in await all_of(store)] == [("a", 2), ("b", 1)]


async def test_pages_are_contiguous(store: MetaStore) -> None:
    counter, read = AccessCounter(store, ManualClock()), DelegatedAccesses(store)
    expected = sorted(
        AccessGroup("lake", key, delegation, operation, status)
        for key in ("f", "g")
        for delegation in ("K1", "K2")
        for operation in ("GetObject", "PutObject")
        for status in (200, 403)
    )
    for group in reversed(expected):
        count_request(counter, group)
    await counter.flush()

    async def pages_of_key(delegation: str) -> list[AccessGroup]:
        found: list[AccessGroup] = []
        while page := await read.of_delegation(delegation, after=found[-1] if found else None, limit=3):
            found += [access.group for access in page]
        return found

    async def pages_of_object(key: str) -> list[AccessGroup]:
        found: list[AccessGroup] = []
        while page := await read.of_object("lake", key, after=found[-1] if found else None, limit=3):
            found += [access.group for access in page]
        return found

    for delegation in ("K1", "K2"):
        assert await pages_of_key(delegation) == [group for group in expected if group.delegation == delegation]
    for key in ("f", "g"):
        assert await pages_of_object(key) == [group for group in expected if group.key == key]


KEY1_PLACE = AccessGroup("lake", "f", "KEY1", "GetObject", 200)


async def is_recorded(store: MetaStore, delegation_id: str) -> bool:
    try:
        await DelegationLog(store).find(delegation_id)
    except NotFound:
        return False
    return True


async def test_writer_retries_until_the_store_recovers(
    store: MetaStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delegated_accesses, "FLUSH_SECONDS", 0.0)
    failing = FailingStore(store)
    delegations, accesses = DelegationLog(failing), AccessCounter(failing, ManualClock())
    running = asyncio.create_task(DelegationTraceWriter(delegations, accesses).run())
    delegations.enqueue(VENDED)
    accesses.count(KEY1_PLACE, CredentialRecipient("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R2")
    while "writing the delegation trace failed" not in caplog.text:
        await asyncio.sleep(0)
    failing.is_down = False
    while not await DelegatedAccesses(store).of_delegation("KEY1", after=None, limit=1):
        await asyncio.sleep(0)
    assert await is_recorded(store, "KEY1")
    delegations.enqueue(replace(VENDED, id="KEY2"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await is_recorded(store, "KEY2")
