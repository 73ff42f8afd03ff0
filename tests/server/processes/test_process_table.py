from __future__ import annotations

import os

import pytest

from lakebed.core.errors import Unavailable
from lakebed.server.processes.process_table import ProcessState, ProcessTable


@pytest.fixture
def table() -> ProcessTable:
    return ProcessTable(["workers", "workers", "event delivery", "streams"])


async def reason(table: ProcessTable, role: str) -> str:
    """Why the role is not ready; empty if it is."""
    try:
        await table.readiness_checks()[role]()
    except Unavailable as error:
        return str(error)
    return ""


async def test_every_role_has_one_readiness_check_and_starts_not_ready(table: ProcessTable) -> None:
    assert list(table.readiness_checks()) == ["workers", "event delivery", "streams"]
    for role in table.readiness_checks():
        assert "not started yet" in await reason(table, role)


async def test_a_role_is_ready_while_one_of_its_processes_is(table: ProcessTable) -> None:
    table.set_state(1, ProcessState.READY)
    assert await reason(table, "workers") == ""
    table.set_state(0, ProcessState.UNRESPONSIVE)
    assert await reason(table, "workers") == ""
    assert await reason(table, "streams") != ""
    table.set_state(1, ProcessState.RESTARTING)
    assert "restarts repeatedly" in await reason(table, "workers")


async def test_unresponsive_process_is_not_ready(table: ProcessTable) -> None:
    table.set_state(2, ProcessState.UNRESPONSIVE)
    assert "does not respond" in await reason(table, "event delivery")


def test_state_written_by_a_forked_process_is_visible_to_others(table: ProcessTable) -> None:
    pid = os.fork()
    if pid == 0:
        table.beat(2)
        table.beat(2)
        os._exit(0)
    os.waitpid(pid, 0)
    assert [table.beats(number) for number in range(4)] == [0, 0, 2, 0]
