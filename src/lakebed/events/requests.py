"""Entries of the request log, and audit documents of requests and events. Pure.

The documents have the format of MinIO's audit log, so that its consumers can read them. Unknown fields are omitted.
Entries contain no secrets (`wire/audit/redaction.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import responses
from typing import Any, Final

import msgspec

from lakebed.meta.outbox import FIRST_REQUEST, OutboxEntry, OutboxEvent

from .documents import payload_text
from .records import rfc3339

VERSION: Final = "1"
INCOMING: Final = "incoming"
"""The trigger of a request. MinIO has other values for background operations."""


class RequestEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of a request log entry."""

    edge: str = ""
    """The protocol: `s3`, `iceberg`, `management`, `admin`, `oauth`."""
    api: str = ""
    """The operation, by its name in the protocol."""
    method: str = ""
    bucket: str = ""
    """The bucket, or the catalog."""
    object: str = ""
    """The key in the bucket, or the namespace and table in the catalog."""
    status: int = 0
    """0 for requests without a response."""
    received_bytes: int = 0
    """Bytes of the request body."""
    sent_bytes: int = 0
    """Bytes of the response body."""
    first_byte_ns: int = 0
    """From the end of the request head to the start of the response."""
    response_ns: int = 0
    """From the end of the request head to the end of the response."""
    request_id: str = ""
    source_ip: str = ""
    host: str = ""
    path: str = ""
    user_agent: str = ""
    query: dict[str, str] = {}
    request_headers: dict[str, str] = {}
    response_headers: dict[str, str] = {}
    principal: str = ""
    """Empty for unauthenticated requests."""
    access_key: str = ""
    """The verified access key; without a `principal`, the claimed one."""
    delegation: str = ""
    """The id of the vended credentials that signed the request, if any."""
    node: str = ""
    """The server that received the request."""


_decode: Final = msgspec.msgpack.Decoder(RequestEntry).decode


def event_of_request(entry: RequestEntry, occurred_ms: int) -> OutboxEvent:
    """The entry as the log stores it. Its subject is its request id, so that deliveries are independent."""
    return OutboxEvent(f"{entry.edge}:{entry.api}", entry.request_id, msgspec.msgpack.encode(entry), occurred_ms)


def is_request(entry: OutboxEntry) -> bool:
    """Whether an entry belongs to the request log rather than the outbox."""
    return entry.seq >= FIRST_REQUEST


def decode_request(entry: OutboxEntry) -> RequestEntry:
    """The payload of an entry; almost empty if it cannot be decoded, so that it does not stop delivery."""
    try:
        return _decode(entry.event.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return RequestEntry(request_id=entry.event.subject)


def audit_of_request(entry: OutboxEntry, payload: RequestEntry) -> dict[str, Any]:
    """The audit document of a request."""
    api = {
        "name": payload.api,
        "bucket": payload.bucket,
        "object": payload.object,
        "status": responses.get(payload.status, ""),
        "statusCode": payload.status,
        "rx": payload.received_bytes,
        "tx": payload.sent_bytes,
        "timeToFirstByte": f"{payload.first_byte_ns}ns",
        "timeToFirstByteInNS": str(payload.first_byte_ns),
        "timeToResponse": f"{payload.response_ns}ns",
        "timeToResponseInNS": str(payload.response_ns),
    }
    tags = {
        "protocol": payload.edge,
        "method": payload.method,
        "principal": payload.principal,
        "delegation": payload.delegation,
    }
    if not payload.principal:
        tags["claimedAccessKey"] = payload.access_key
    return _without_empty(
        {
            "version": VERSION,
            "time": rfc3339(entry.event.occurred_ms),
            "event": entry.event.kind,
            "trigger": INCOMING,
            "api": {name: value for name, value in api.items() if value != ""},
            "remotehost": payload.source_ip,
            "requestID": payload.request_id,
            "userAgent": payload.user_agent,
            "requestPath": payload.path,
            "requestHost": payload.host,
            "requestNode": payload.node,
            "requestQuery": payload.query,
            "requestHeader": payload.request_headers,
            "responseHeader": payload.response_headers,
            "tags": _without_empty(tags),
            "accessKey": payload.access_key if payload.principal else "",
        }
    )


def audit_of_event(entry: OutboxEntry, document: Mapping[str, Any]) -> dict[str, Any]:
    """The audit document of an event, with the event's own `document` in its tags."""
    event = entry.event
    return _without_empty(
        {
            "version": VERSION,
            "time": rfc3339(event.occurred_ms),
            "event": event.kind,
            "trigger": event.type or "event",
            "api": _without_empty({"name": event.operation}),
            "remotehost": payload_text(event.payload, "source_ip"),
            "requestID": payload_text(event.payload, "request_id"),
            "tags": _without_empty({"subject": event.subject, "principal": payload_text(event.payload, "principal")})
            | {"event": document},
        }
    )


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value not in ("", {})}
