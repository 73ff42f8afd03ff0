"""Calls on producer offsets: where the writes of a job ended, for its recovery."""

from __future__ import annotations

from enum import IntEnum

from lakebed.objects.model import Caller
from lakebed.streams.admin.producer_offsets import BucketOffset, ProducerOffsets
from lakebed.streams.seam import TableBucket

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call

__all__ = ["producer_calls"]


class _Result(IntEnum):
    CREATED = 0
    ALREADY_EXISTS = 1


def producer_calls(producers: ProducerOffsets) -> tuple[AnyCall, ...]:
    """The calls on producer offsets."""

    async def register(
        caller: Caller, request: pb.RegisterProducerOffsetsRequest
    ) -> pb.RegisterProducerOffsetsResponse:
        offsets = [
            BucketOffset(
                TableBucket(
                    table.table_id, each.partition_id if each.HasField("partition_id") else None, each.bucket_id
                ),
                each.log_end_offset,
            )
            for table in request.table_offsets
            for each in table.bucket_offsets
        ]
        ttl_ms = request.ttl_ms if request.HasField("ttl_ms") else None
        is_new = await producers.register(caller, request.producer_id, offsets, ttl_ms)
        return pb.RegisterProducerOffsetsResponse(result=_Result.CREATED if is_new else _Result.ALREADY_EXISTS)

    async def get(caller: Caller, request: pb.GetProducerOffsetsRequest) -> pb.GetProducerOffsetsResponse:
        found = await producers.get(caller, request.producer_id)
        if found is None:
            return pb.GetProducerOffsetsResponse()
        response = pb.GetProducerOffsetsResponse(producer_id=request.producer_id, expiration_time=found.expires_ms)
        tables: dict[int, pb.ProducerTable] = {}
        for end in found.offsets:
            bucket = end.bucket
            if bucket.table_id not in tables:
                tables[bucket.table_id] = response.table_offsets.add(table_id=bucket.table_id)
            tables[bucket.table_id].bucket_offsets.add(
                bucket_id=bucket.bucket, partition_id=bucket.partition_id, log_end_offset=end.offset
            )
        return response

    async def delete(caller: Caller, request: pb.DeleteProducerOffsetsRequest) -> pb.DeleteProducerOffsetsResponse:
        await producers.delete(caller, request.producer_id)
        return pb.DeleteProducerOffsetsResponse()

    return (
        Call(1053, "REGISTER_PRODUCER_OFFSETS", pb.RegisterProducerOffsetsRequest, register),
        Call(1054, "GET_PRODUCER_OFFSETS", pb.GetProducerOffsetsRequest, get),
        Call(1055, "DELETE_PRODUCER_OFFSETS", pb.DeleteProducerOffsetsRequest, delete),
    )
