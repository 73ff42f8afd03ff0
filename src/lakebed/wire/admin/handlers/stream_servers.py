"""Stream servers: status, stranded buckets, and giving up a lost server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakebed.streams.admin.failover import StrandedBucket, StreamStatus
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..queries import check_parameters
from ..services import AdminServices


async def stream_status(services: AdminServices, request: JsonRequest) -> Response:
    """Get the leader, all servers, and the stranded buckets."""
    check_parameters(request.http, ())
    return ok(_status_document(await services.failover.status(request.caller)))


async def forget_stream_server(services: AdminServices, request: JsonRequest) -> Response:
    """Give up the records that exist only on the disk of a lost server."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    forgotten = await services.failover.forget(request.caller, request.names["server"])
    return ok({"server": forgotten.server, "buckets": _bucket_documents(forgotten.buckets)})


def _status_document(status: StreamStatus) -> dict[str, Any]:
    leader = status.leader
    return {
        "leader": None
        if leader is None
        else {
            "server": leader.server,
            "number": leader.number,
            "address": str(leader.address),
            "epoch": leader.epoch,
        },
        "servers": [
            {
                "server": each.name,
                "number": each.number,
                "address": each.address,
                "is-running": each.expires_ms > status.now_ms,
                "last-seen-ms": each.seen_ms,
                "ack-after-upload": each.acks_after_upload,
                "failure": each.failure or None,
            }
            for each in status.servers
        ],
        "stranded": _bucket_documents(status.stranded),
    }


def _bucket_documents(buckets: Sequence[StrandedBucket]) -> list[dict[str, Any]]:
    return [
        {
            "database": each.database,
            "table": each.table,
            "partition": each.partition,
            "bucket": each.bucket,
            "server": each.server,
            "uploaded-end": each.uploaded_end,
            "recorded-end": each.recorded_end,
            "reason": each.reason,
        }
        for each in buckets
    ]


ROUTES = (
    Route("getStreamStatus", "GET", "/v1/streams/status", stream_status, is_standard=False),
    Route("forgetStreamServer", "POST", "/v1/streams/servers/{server}/forget", forget_stream_server, is_standard=False),
)
