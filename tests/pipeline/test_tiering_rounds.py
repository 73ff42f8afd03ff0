"""A worker of the lake, over the public wire; what Spark would do is done by a function here."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from typing import Any

import fluss
import pytest

from lakebed.client.stream_access import StreamAccess
from lakebed.client.stream_lake import Assignment, StreamLake
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.core.secrets import Secret
from lakebed.pipeline.report import Amount, JobReport
from lakebed.pipeline.tiering_rounds import tier_next, work
from tests.clients.streams.serving import StreamServer, connected, make_table, running_streams

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamServer]:
    with running_streams(tmp_path_factory.mktemp("streams") / "data") as server:
        yield server


@pytest.fixture
def access(streams: StreamServer) -> StreamAccess:
    return StreamAccess(streams.address, streams.server.access_key, Secret(streams.server.secret_key))


@pytest.fixture
def stream(streams: StreamServer) -> Iterator[str]:
    """A table that is due, and goes afterwards: no other is ever."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    path = fluss.TablePath("fluss", name)

    async def make() -> None:
        async with connected(streams) as connection:
            await make_table(connection, path, properties={"table.datalake.enabled": "true"})

    async def drop() -> None:
        async with connected(streams) as connection:
            await connection.get_admin().drop_table(path)

    asyncio.run(make())
    yield name
    asyncio.run(drop())


def report(rows: int = 0) -> JobReport:
    return JobReport(job=JobKind.TIER_STREAM, table="t", dry_run=False, changed=True, wrote=Amount(rows=rows))


def test_a_table_that_is_due_is_tiered_and_then_it_is_not_due(access: StreamAccess, stream: str) -> None:
    seen: list[Assignment] = []

    def tier(given: Assignment) -> JobReport:
        seen.append(given)
        return report(5)

    given = tier_next(access, tier)
    assert given is not None
    assert (given.name, given.epoch) == (stream, 1)
    assert seen == [given]
    assert tier_next(access, tier) is None


def test_a_table_whose_job_failed_is_given_again_with_another_epoch(access: StreamAccess, stream: str) -> None:
    def fail(given: Assignment) -> JobReport:
        raise InvalidInput("no")

    first = tier_next(access, fail)
    second = tier_next(access, lambda given: report())
    assert first is not None
    assert second is not None
    assert (first.name, second.name, second.epoch) == (stream, stream, first.epoch + 1)


def test_the_server_hears_of_a_job_while_it_runs(
    access: StreamAccess, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Assignment] = []
    original = StreamLake.beat

    def beat(lake: StreamLake, given: Assignment) -> None:
        original(lake, given)
        heard.append(given)

    monkeypatch.setattr(StreamLake, "beat", beat)

    def tier(given: Assignment) -> JobReport:
        deadline = time.monotonic() + 60
        while len(heard) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        return report()

    given = tier_next(access, tier, beat_seconds=0.05)
    assert heard[:2] == [given, given]


def test_work_goes_on_when_the_server_cannot_be_asked(access: StreamAccess, stream: str) -> None:
    nowhere = StreamAccess("127.0.0.1:1", "k", Secret("s"))
    pauses: list[float] = []
    done: list[Any] = []

    def tier(given: Assignment) -> JobReport:
        done.append(given)
        return report()

    work(nowhere, tier, until=lambda: len(pauses) >= 2, sleep=pauses.append)
    assert not done
    work(access, tier, until=lambda: bool(done), sleep=pauses.append)
    assert [given.name for given in done] == [stream]
