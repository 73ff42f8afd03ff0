"""JSON documents of events, for the event API, the live feed and targets."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from lakebed.meta.outbox import OutboxEntry


def event_document(entry: OutboxEntry, event_id: str) -> dict[str, Any]:
    """An event with its id; `type` is `AFTER_X` for events of an operation X."""
    event = entry.event
    document: dict[str, Any] = {
        "id": event_id,
        "seq": entry.seq,
        "kind": event.kind,
        "subject": event.subject,
        "occurred-ms": event.occurred_ms,
        "payload": msgspec.Raw(payload_document(event.payload)),
    }
    if event.operation:
        document["type"] = event.type
    return document


def payload_document(payload: bytes) -> bytes:
    """A payload as a JSON object, with bytes as base64.

    A payload that cannot be decoded becomes `{"unreadable": BASE64}`, so that it does not stop readers of the log.
    """
    try:
        decoded = msgspec.msgpack.decode(payload)
        return msgspec.json.encode(decoded if isinstance(decoded, dict) else {"value": decoded})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return msgspec.json.encode({"unreadable": base64.b64encode(payload).decode()})


def payload_text(payload: bytes, field: str) -> str:
    """A string field of a payload; empty if it is missing or not a string."""
    try:
        decoded = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    value = decoded.get(field) if isinstance(decoded, dict) else None
    return value if isinstance(value, str) else ""
