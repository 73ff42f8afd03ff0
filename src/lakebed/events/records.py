"""Event records in the format of S3 notifications. Pure.

A record has the fields of an S3 record and MinIO's `source`. Event names keep their prefix `s3:`, as MinIO's clients
expect. Other events have a record with the same frame and `lakebed` in place of `s3`, so that `Records` is never empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec

from lakebed.meta.outbox import OutboxEntry
from lakebed.objects.events import ObjectEvent, decode_event

from .documents import payload_text
from .names import EventName, name_of_kind

EVENT_SOURCE: Final = "lakebed:s3"
OTHER_SOURCE: Final = "lakebed:events"
SCHEMA_VERSION: Final = "1.0"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_META: Final = "x-amz-meta-"
_INTERNAL_METADATA: Final = (
    "internal-",
    "x-rustfs-internal-",
    "x-minio-internal-",
    "x-rustfs-encryption-",
    "x-minio-encryption-",
    "x-amz-meta-internal-",
)
"""Prefixes of metadata that servers use internally; records omit it."""

_SEQUENCER_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class S3Event:
    """A decoded outbox entry of an S3 event."""

    seq: int
    name: EventName
    occurred_ms: int
    payload: ObjectEvent


def s3_event_of(entry: OutboxEntry) -> S3Event | None:
    """Decode the entry; None if it is not an S3 event or cannot be decoded."""
    name = name_of_kind(entry.event.kind)
    if name is None:
        return None
    try:
        payload = decode_event(entry.event.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return S3Event(entry.seq, name, entry.event.occurred_ms, payload)


def record_of(event: S3Event, *, rule_id: str, region: str) -> dict[str, Any]:
    """The record of an S3 event; `rule_id` is the bucket rule that matched it, or empty."""
    payload = event.payload
    return {
        "eventVersion": event.name.version,
        "eventSource": EVENT_SOURCE,
        "awsRegion": region,
        "eventTime": rfc3339(event.occurred_ms),
        "eventName": event.name.value,
        "userIdentity": {"principalId": payload.principal},
        "requestParameters": {
            "principalId": payload.principal,
            "region": region,
            "sourceIPAddress": payload.source_ip,
        },
        "responseElements": {"x-amz-request-id": payload.request_id, "x-amz-id-2": ""},
        "s3": {
            "s3SchemaVersion": SCHEMA_VERSION,
            "configurationId": rule_id,
            "bucket": {
                "name": payload.bucket,
                "ownerIdentity": {"principalId": payload.owner or payload.account},
                "arn": f"arn:aws:s3:::{payload.bucket}",
            },
            "object": _object(event),
        },
        "source": _source(payload),
    }


def other_record_of(entry: OutboxEntry, document: dict[str, Any], *, region: str) -> dict[str, Any]:
    """The record of any other event, with its `document` from `GET /events` under `lakebed`."""
    payload = entry.event.payload
    principal, source_ip = payload_text(payload, "principal"), payload_text(payload, "source_ip")
    return {
        "eventVersion": "2.1",
        "eventSource": OTHER_SOURCE,
        "awsRegion": region,
        "eventTime": rfc3339(entry.event.occurred_ms),
        "eventName": entry.event.kind,
        "userIdentity": {"principalId": principal},
        "requestParameters": {"principalId": principal, "region": region, "sourceIPAddress": source_ip},
        "responseElements": {"x-amz-request-id": payload_text(payload, "request_id"), "x-amz-id-2": ""},
        "lakebed": document,
    }


def _object(event: S3Event) -> dict[str, Any]:
    payload = event.payload
    document: dict[str, Any] = {"key": encode_key(payload.key)}
    if payload.key and not event.name.omits_object_fields:
        document["size"] = payload.size
        if payload.etag:
            document["eTag"] = payload.etag
        if payload.content_type:
            document["contentType"] = payload.content_type
        metadata = _user_metadata(payload.metadata)
        if metadata:
            document["userMetadata"] = metadata
    if payload.version:
        document["versionId"] = payload.version
    document["sequencer"] = sequencer_of(event.seq)
    return document


def _user_metadata(metadata: dict[str, str]) -> dict[str, str]:
    return {
        f"{_META}{name}": value for name, value in metadata.items() if not name.lower().startswith(_INTERNAL_METADATA)
    }


def _source(payload: ObjectEvent) -> dict[str, str]:
    host, port = payload.host, ""
    name, colon, number = payload.host.rpartition(":")
    # IPv6 addresses contain colons, and are in brackets if a port follows.
    if colon and number.isascii() and number.isdigit() and (":" not in name or name.endswith("]")):
        host, port = name, number
    return {"host": host, "port": port, "userAgent": payload.user_agent}


def sequencer_of(seq: int) -> str:
    """S3's sequencer: compares as text in the order of events, also across keys and buckets."""
    return f"{seq:0{_SEQUENCER_DIGITS}X}"


def encode_key(key: str) -> str:
    """The key of a record: form-urlencoded, except for slashes."""
    return quote_plus(key, safe="/*").replace("~", "%7E")


def rfc3339(ms: int) -> str:
    """A UTC timestamp with milliseconds: `2026-01-02T03:04:05.006Z`."""
    seconds, fraction = divmod(ms, 1000)
    return f"{_second(seconds)}.{fraction:03}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """Cached: consecutive events mostly share a second."""
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
