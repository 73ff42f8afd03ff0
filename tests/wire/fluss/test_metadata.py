"""A metadata call names a limited number of tables and partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakebed.core.settings import HostPort
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.servers.leader import LeaderNode
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import Call
from lakebed.wire.fluss.handlers.metadata import MAX_PARTITIONS, MAX_TABLES, metadata_calls
from tests.streams.world import StreamWorld

ORDERS = pb.TablePath(database_name="fluss", table_name="orders")
PARTITION = pb.PartitionPath(database_name="fluss", table_name="orders", partition_name="p")


@pytest.fixture
def call(light_world: StreamWorld) -> Call[Any]:
    async def node(host: str) -> LeaderNode:
        return LeaderNode(HostPort("127.0.0.1", 9123), 3, 0)

    (call,) = metadata_calls(light_world.tables, light_world.partitions, cast(Any, SimpleNamespace(node=node)))
    assert isinstance(call, Call)
    return call


async def test_metadata_of_the_most_tables_is_returned(light_world: StreamWorld, call: Call[Any]) -> None:
    await light_world.table()
    response = await call.handle(light_world.root, pb.GetMetadataRequest(table_path=[ORDERS] * MAX_TABLES))
    assert len(cast(pb.GetMetadataResponse, response).table_metadata) == MAX_TABLES


@pytest.mark.parametrize(
    "message",
    [
        pb.GetMetadataRequest(table_path=[ORDERS] * (MAX_TABLES + 1)),
        pb.GetMetadataRequest(partitions_path=[PARTITION] * (MAX_PARTITIONS + 1)),
        pb.GetMetadataRequest(partitions_id=range(MAX_PARTITIONS + 1)),
        pb.GetMetadataRequest(partitions_path=[PARTITION], partitions_id=range(MAX_PARTITIONS)),
    ],
    ids=["tables", "partitions", "ids", "both"],
)
async def test_more_tables_or_partitions_fail_without_retry(
    light_world: StreamWorld, call: Call[Any], message: pb.GetMetadataRequest
) -> None:
    await light_world.table()
    with pytest.raises(FlussError, match="limit=") as raised:
        await call.handle(light_world.root, message)
    assert raised.value.code is ErrorCode.RECORD_TOO_LARGE
    assert not raised.value.is_retriable
