from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakebed.core.errors import Corrupted
from lakebed.core.settings import ServerSettings, Settings
from lakebed.server.events.delivery_process import NICENESS, compose
from lakebed.server.stores.identity import establish_identity
from tests.fixtures.descriptors import open_descriptors, opened_since
from tests.fixtures.raw_http import Connection
from tests.fixtures.server import running_server

from ..running_processes import deliveries_of, plain, wait_until, workers_of


def settings_on(folder: Path) -> Settings:
    return Settings(server=ServerSettings(data=folder / "data"))


async def test_successor_in_the_same_server_takes_the_lease_at_once_and_another_server_does_not(tmp_path: Path) -> None:
    settings = settings_on(tmp_path)
    identity = establish_identity(settings)
    async with compose(settings, identity, "here:run-a") as killed:
        assert await killed.dispatcher._held.acquire()
    async with compose(settings, identity, "there:run-b") as other:
        assert not await other.dispatcher._held.acquire()
    async with compose(settings, identity, "here:run-a") as successor:
        assert await successor.dispatcher._held.acquire()


async def test_no_files_stay_open_after_stop_or_failed_start(tmp_path: Path) -> None:
    settings = settings_on(tmp_path)
    identity = establish_identity(settings)
    before = open_descriptors()
    async with compose(settings, identity, "here:run-a"):
        assert opened_since(before)
    assert not opened_since(before)
    for file in settings.server.data.glob("meta.db*"):
        file.unlink()
    (settings.server.data / "meta.db").write_bytes(os.urandom(50_000))
    with pytest.raises(Corrupted):
        async with compose(settings, identity, "here:run-a"):
            raise AssertionError("unreachable: compose fails")
    assert not opened_since(before)


@pytest.mark.integration
@pytest.mark.slow
def test_delivery_process_has_the_lowest_priority_and_a_metric(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        wait_until(lambda: '"ready"' in server.log_text(), "all are ready")
        (delivering,) = deliveries_of(server)
        (answering,) = {os.getpriority(os.PRIO_PROCESS, pid) for pid in workers_of(server)}
        assert os.getpriority(os.PRIO_PROCESS, delivering) == min(19, answering + NICENESS)
        with Connection(server.port) as connection:
            assert b"\nlakebed_event_delivery_running 1\n" in connection.exchange(plain("GET", "/metrics")).body
