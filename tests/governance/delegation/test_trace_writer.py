"""The trace is written down by itself, also after the store could not be, and at the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import NotFound
from lakebed.governance.delegation import trace_writer
from lakebed.governance.delegation.delegated_accesses import AccessPlace, AccessTally, DelegatedAccesses, Holder
from lakebed.governance.delegation.delegations import Delegations
from lakebed.governance.delegation.trace_writer import TraceWriter
from lakebed.meta.seam import MetaStore
from tests.governance.failing import Failing

from .test_delegations import VENDED

PLACE = AccessPlace("lake", "f", "KEY1", "GetObject", 200)


async def is_kept(store: MetaStore, delegation_id: str) -> bool:
    try:
        await Delegations(store).find(delegation_id)
    except NotFound:
        return False
    return True


async def test_what_waits_is_written_however_often_the_store_fails(
    store: MetaStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_writer, "FLUSH_SECONDS", 0.0)
    failing = Failing(store)
    delegations, accesses = Delegations(failing), AccessTally(failing, ManualClock())
    running = asyncio.create_task(TraceWriter(delegations, accesses).run())
    delegations.keep_soon(VENDED)
    accesses.note(PLACE, Holder("bob", "T1", "R1"), received_bytes=0, sent_bytes=1, request_id="R2")
    while "could not be written down yet" not in caplog.text:
        await asyncio.sleep(0)
    failing.is_down = False
    while not await DelegatedAccesses(store).of_delegation("KEY1", after=None, limit=1):
        await asyncio.sleep(0)
    assert await is_kept(store, "KEY1")
    delegations.keep_soon(replace(VENDED, id="KEY2"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await is_kept(store, "KEY2")
