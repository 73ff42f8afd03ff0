"""Requests as audit logs tell of them: one entry for each, whichever protocol it came by. Pure.

The document is MinIO's, so that what reads audit logs of MinIO or RustFS reads these. What is not known is left out,
and no secret was ever put in (`wire/audit/redaction.py`).
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
"""What has led to an entry: somebody asked. MinIO has others for what a server does by itself."""


class RequestEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of an entry of the log of requests."""

    edge: str = ""
    """Which protocol: `s3`, `iceberg`, `management`, `admin`, `oauth`."""
    api: str = ""
    """The operation that was asked for, by the name that its protocol has for it."""
    method: str = ""
    bucket: str = ""
    """The bucket, or the catalog."""
    object: str = ""
    """The key in it, or the namespace and what is in that."""
    status: int = 0
    """0 if the request was never answered."""
    received_bytes: int = 0
    sent_bytes: int = 0
    """Of bodies."""
    first_byte_ns: int = 0
    """From the end of the request's head to the beginning of the answer."""
    response_ns: int = 0
    """From there to the end of the answer."""
    request_id: str = ""
    source_ip: str = ""
    host: str = ""
    path: str = ""
    user_agent: str = ""
    query: dict[str, str] = {}
    request_headers: dict[str, str] = {}
    response_headers: dict[str, str] = {}
    principal: str = ""
    """Who it was; empty if nobody showed that they are anybody."""
    access_key: str = ""
    """The key that the request was signed with, or is said to be where `principal` is empty."""
    delegation: str = ""
    """The keys that the catalog handed out, if it came with such."""
    node: str = ""
    """Which server it came to."""


_decode: Final = msgspec.msgpack.Decoder(RequestEntry).decode


def event_of_request(entry: RequestEntry, occurred_ms: int) -> OutboxEvent:
    """The entry as the log keeps it. Each is about itself: none waits for another."""
    return OutboxEvent(f"{entry.edge}:{entry.api}", entry.request_id, msgspec.msgpack.encode(entry), occurred_ms)


def is_request(entry: OutboxEntry) -> bool:
    """Whether an entry is of the log of requests, and not of the outbox."""
    return entry.seq >= FIRST_REQUEST


def decode_request(entry: OutboxEntry) -> RequestEntry:
    """What is told of a request. One that cannot be read is empty: whoever delivers goes on behind it."""
    try:
        return _decode(entry.event.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return RequestEntry(request_id=entry.event.subject)


def audit_of_request(entry: OutboxEntry, payload: RequestEntry) -> dict[str, Any]:
    """The entry of an audit log."""
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
    return _known(
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
            "tags": _known(tags),
            "accessKey": payload.access_key if payload.principal else "",
        }
    )


def audit_of_event(entry: OutboxEntry, document: Mapping[str, Any]) -> dict[str, Any]:
    """An event in the same frame, for a target that has everything so; `document` is the event, under the tags."""
    event = entry.event
    return _known(
        {
            "version": VERSION,
            "time": rfc3339(event.occurred_ms),
            "event": event.kind,
            "trigger": event.type or "event",
            "api": _known({"name": event.operation}),
            "remotehost": payload_text(event.payload, "source_ip"),
            "requestID": payload_text(event.payload, "request_id"),
            "tags": _known({"subject": event.subject, "principal": payload_text(event.payload, "principal")})
            | {"event": document},
        }
    )


def _known(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value not in ("", {})}
