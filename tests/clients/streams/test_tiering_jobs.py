"""Jobs of others that tier: what they ask the server, and what it takes from them, over the wire."""

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
    """A server of their own: they are given whatever table is due."""
    with running_streams(tmp_path_factory.mktemp("streams") / "data") as server:
        yield server


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


@pytest.fixture
def lake(streams: StreamServer) -> Iterator[LakeTieringClient]:
    with StreamClient(streams.address, streams.server.access_key, streams.server.secret_key) as client:
        yield LakeTieringClient(client)


def given(lake: LakeTieringClient) -> TieringAssignment:
    found = lake.request_table()
    assert found is not None
    return found


def test_a_table_that_is_due_is_given_and_then_it_is_not_due(lake: LakeTieringClient, stream: str) -> None:
    first = given(lake)
    assert (first.name, first.epoch) == (stream, 1)
    assert lake.request_table() is None
    lake.heartbeat(first)
    lake.finish(first, 5)
    assert lake.request_table() is None


def test_a_table_whose_job_failed_is_given_again_and_the_first_job_is_not_heard_any_more(
    lake: LakeTieringClient, stream: str
) -> None:
    first = given(lake)
    lake.fail(first)
    second = given(lake)
    assert (second.name, second.epoch) == (stream, first.epoch + 1)
    for say in (lake.heartbeat, lake.fail):
        with pytest.raises(FlussError) as caught:
            say(first)
        assert caught.value.code is ErrorCode.FENCED_TIERING_EPOCH
    lake.finish(second, 0)
