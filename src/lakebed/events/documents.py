"""Events as others see them: JSON, over whichever way it reaches them."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from lakebed.meta.outbox import OutboxEntry


def event_document(entry: OutboxEntry, event_id: str) -> dict[str, Any]:
    """An event with its id; `type` is `AFTER_X` for one that came of an operation X."""
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
    """A payload of whatever kind as a JSON object, bytes in it as base64.

    One that cannot be read is shown as it is: whoever reads the log must be able to go on behind it.
    """
    try:
        decoded = msgspec.msgpack.decode(payload)
        return msgspec.json.encode(decoded if isinstance(decoded, dict) else {"value": decoded})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return msgspec.json.encode({"unreadable": base64.b64encode(payload).decode()})


def payload_text(payload: bytes, field: str) -> str:
    """A field of a payload, if it has that field and a text in it; otherwise empty."""
    try:
        decoded = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    value = decoded.get(field) if isinstance(decoded, dict) else None
    return value if isinstance(value, str) else ""
