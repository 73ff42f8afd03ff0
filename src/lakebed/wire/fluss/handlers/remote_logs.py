"""The call about what the byte store has of logs."""

from __future__ import annotations

from lakebed.objects.model import Caller
from lakebed.streams.authorization import StreamAuthorizer, StreamOperation
from lakebed.streams.log.remote.remote_log import RemoteLogs
from lakebed.streams.tables import StreamTables

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call

__all__ = ["remote_log_calls"]


def remote_log_calls(authorizer: StreamAuthorizer, tables: StreamTables, remotes: RemoteLogs) -> tuple[AnyCall, ...]:
    """What this answers."""

    async def listed(caller: Caller, request: pb.ListRemoteLogManifestsRequest) -> pb.ListRemoteLogManifestsResponse:
        """Of each bucket of a table or a partition, where its segments are listed.

        Error codes: UNKNOWN_TABLE_OR_BUCKET.
        """
        table = await tables.by_id(request.table_id)
        await authorizer.authorize(caller, StreamOperation.DESCRIBE, *table.path)
        partition_id = request.partition_id if request.HasField("partition_id") else None
        answer = pb.ListRemoteLogManifestsResponse()
        for bucket, manifest, end in await remotes.ends(table.id, partition_id):
            named = pb.TableBucket(table_id=table.id, bucket_id=bucket.bucket)
            if partition_id is not None:
                named.partition_id = partition_id
            answer.manifests.add(table_bucket=named, manifest_path=remotes.address_of(manifest), end_offset=end)
        return answer

    return (Call(1063, "LIST_REMOTE_LOG_MANIFESTS", pb.ListRemoteLogManifestsRequest, listed),)
