"""Periodic jobs of a server."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lakebed.server.stores.metadata import SQLITE_FILE
from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer, running_server, start_server

from .running_processes import wait_until


def event_count(data: Path) -> int:
    with sqlite3.connect(f"file:{data / SQLITE_FILE}?mode=ro", uri=True) as database:
        (count,) = database.execute("SELECT count(*) FROM outbox").fetchone()
        return int(count)


def put_some(server: RunningServer) -> None:
    signer = Signer(f"127.0.0.1:{server.port}")
    with Connection(server.port) as connection:
        assert connection.exchange(signer.request("PUT", "/bucket")).status == 200
        for number in range(5):
            assert connection.exchange(signer.request("PUT", f"/bucket/{number}", body=b"x")).status == 200


@pytest.mark.integration
@pytest.mark.slow
def test_old_events_without_a_reader_are_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_server(data, LAKEBED_META__EVENT_RETENTION="1s", LAKEBED_META__TRIM_INTERVAL="200ms") as server:
        put_some(server)
        assert event_count(data) > 0
        wait_until(lambda: event_count(data) == 0, "no event")


@pytest.mark.integration
@pytest.mark.slow
def test_recent_events_are_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_server(data, LAKEBED_META__TRIM_INTERVAL="50ms") as server:
        put_some(server)
        put_more = Signer(f"127.0.0.1:{server.port}")
        with Connection(server.port) as connection:
            for _ in range(50):
                connection.exchange(put_more.request("GET", "/bucket/1"))
        assert event_count(data) == 6


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_restart_does_not_delay_periodic_jobs(tmp_path: Path, end: str) -> None:
    data = tmp_path / "data"
    retention = ("--set", "meta.event_retention=1s")
    first = start_server(data, *retention, "--set", "meta.trim_interval=1h")
    put_some(first)
    assert event_count(data) > 0
    if end == "stopped":
        assert first.stop() == 0
    else:
        first.kill()
    with running_server(data, *retention, "--set", "meta.trim_interval=200ms"):
        wait_until(lambda: event_count(data) == 0, "no event")
