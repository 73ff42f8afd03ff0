"""The tiering protocol for external tiering jobs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest

import fluss
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient, TieringAssignment
from lakebed.fluss.errors import ErrorCode, FlussError
from tests.clients.streams.serving import StreamServer, connected, make_table, running_streams

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamServer]:
    """A separate server, because it assigns any table that is due."""
    with running_streams(tmp_path_factory.mktemp("streams") / "data") as server:
        yield server


@pytest.fixture
def stream(streams: StreamServer) -> Iterator[str]:
    """The only table that is due for tiering, dropped afterwards."""
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


@pytest.fixture
def lake(streams: StreamServer) -> Iterator[LakeTieringClient]:
    with StreamClient(streams.address, streams.server.access_key, streams.server.secret_key) as client:
        yield LakeTieringClient(client)


def assigned(lake: LakeTieringClient) -> TieringAssignment:
    found = lake.request_table()
    assert found is not None
    return found


def test_due_table_is_assigned_once(lake: LakeTieringClient, stream: str) -> None:
    first = assigned(lake)
    assert (first.name, first.epoch) == (stream, 1)
    assert lake.request_table() is None
    lake.heartbeat(first)
    lake.finish(first, 5)
    assert lake.request_table() is None


def test_table_of_a_failed_job_is_reassigned_and_the_first_job_is_fenced(lake: LakeTieringClient, stream: str) -> None:
    first = assigned(lake)
    lake.fail(first)
    second = assigned(lake)
    assert (second.name, second.epoch) == (stream, first.epoch + 1)
    for say in (lake.heartbeat, lake.fail):
        with pytest.raises(FlussError) as caught:
            say(first)
        assert caught.value.code is ErrorCode.FENCED_TIERING_EPOCH
    lake.finish(second, 0)
