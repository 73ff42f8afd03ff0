"""Calls on the cluster: configs, server tags, rebalancing, health, and table statistics."""

from __future__ import annotations

from lakebed.objects.model import Caller
from lakebed.streams.admin.cluster import ClusterAdmin
from lakebed.streams.admin.stats import TableStats
from lakebed.streams.cluster_configs import ClusterConfigs

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..errors import set_failure
from .altering import option_changes

__all__ = ["config_calls", "server_calls", "stats_calls"]


def config_calls(configs: ClusterConfigs) -> tuple[AnyCall, ...]:
    """The calls on cluster configs."""

    async def describe(caller: Caller, request: pb.DescribeClusterConfigsRequest) -> pb.DescribeClusterConfigsResponse:
        found = await configs.describe(caller)
        return pb.DescribeClusterConfigsResponse(
            configs=[pb.DescribedConfig(key=each.name, value=each.value, source=each.source) for each in found]
        )

    async def alter(caller: Caller, request: pb.AlterClusterConfigsRequest) -> pb.AlterClusterConfigsResponse:
        await configs.alter(caller, option_changes(request.alter_configs))
        return pb.AlterClusterConfigsResponse()

    return (
        Call(1045, "DESCRIBE_CLUSTER_CONFIGS", pb.DescribeClusterConfigsRequest, describe),
        Call(1046, "ALTER_CLUSTER_CONFIGS", pb.AlterClusterConfigsRequest, alter),
    )


def server_calls(servers: ClusterAdmin) -> tuple[AnyCall, ...]:
    """The calls on server tags and rebalancing."""

    async def tag(caller: Caller, request: pb.AddServerTagRequest) -> pb.AddServerTagResponse:
        await servers.tag(caller, request.server_ids, request.server_tag)
        return pb.AddServerTagResponse()

    async def untag(caller: Caller, request: pb.RemoveServerTagRequest) -> pb.RemoveServerTagResponse:
        await servers.untag(caller, request.server_ids, request.server_tag)
        return pb.RemoveServerTagResponse()

    async def rebalance(caller: Caller, request: pb.RebalanceRequest) -> pb.RebalanceResponse:
        return pb.RebalanceResponse(rebalance_id=await servers.rebalance(caller, request.goals))

    async def progress(caller: Caller, request: pb.ListRebalanceProgressRequest) -> pb.ListRebalanceProgressResponse:
        found = await servers.progress(caller, request.rebalance_id if request.HasField("rebalance_id") else None)
        if found is None:
            return pb.ListRebalanceProgressResponse()
        return pb.ListRebalanceProgressResponse(rebalance_id=found.id, rebalance_status=found.status)

    async def cancel(caller: Caller, request: pb.CancelRebalanceRequest) -> pb.CancelRebalanceResponse:
        await servers.cancel(caller, request.rebalance_id if request.HasField("rebalance_id") else None)
        return pb.CancelRebalanceResponse()

    return (
        Call(1047, "ADD_SERVER_TAG", pb.AddServerTagRequest, tag),
        Call(1048, "REMOVE_SERVER_TAG", pb.RemoveServerTagRequest, untag),
        Call(1049, "REBALANCE", pb.RebalanceRequest, rebalance),
        Call(1050, "LIST_REBALANCE_PROGRESS", pb.ListRebalanceProgressRequest, progress),
        Call(1051, "CANCEL_REBALANCE", pb.CancelRebalanceRequest, cancel),
    )


def stats_calls(stats: TableStats) -> tuple[AnyCall, ...]:
    """The calls on table statistics and cluster health."""

    async def table(caller: Caller, request: pb.GetTableStatsRequest) -> pb.GetTableStatsResponse:
        buckets = [
            (each.partition_id if each.HasField("partition_id") else None, each.bucket_id) for each in request.buckets
        ]
        response = pb.GetTableStatsResponse()
        for found in await stats.table(caller, request.table_id, buckets):
            added = response.buckets.add(bucket_id=found.bucket, partition_id=found.partition_id)
            if found.failure is not None:
                set_failure(added, found.failure)
            elif found.rows is not None:
                added.row_count = found.rows
        return response

    async def health(caller: Caller, request: pb.GetClusterHealthRequest) -> pb.GetClusterHealthResponse:
        found = await stats.health(caller)
        return pb.GetClusterHealthResponse(
            num_replicas=found.buckets,
            in_sync_replicas=found.in_sync,
            num_leader_replicas=found.buckets,
            active_leader_replicas=found.active,
            status=found.status,
        )

    return (
        Call(1059, "GET_TABLE_STATS", pb.GetTableStatsRequest, table),
        Call(1062, "GET_CLUSTER_HEALTH", pb.GetClusterHealthRequest, health),
    )
