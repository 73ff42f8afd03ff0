"""Records: events as S3 tells of them. Pure.

A record has the fields of S3's, and besides `source` as MinIO and its relatives have it. Names keep their `s3:`, which
those clients expect. Events of anything but S3 have a record too, of the same frame with what is ours in place of what
is S3's, so that whoever goes through `Records` finds one for every event.
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
_KEPT_BACK: Final = (
    "internal-",
    "x-rustfs-internal-",
    "x-minio-internal-",
    "x-rustfs-encryption-",
    "x-minio-encryption-",
    "x-amz-meta-internal-",
)
"""How metadata begins that servers keep for themselves."""

_SEQUENCER_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class S3Event:
    """An entry of the outbox that is an event of S3."""

    seq: int
    name: EventName
    occurred_ms: int
    payload: ObjectEvent


def s3_event_of(entry: OutboxEntry) -> S3Event | None:
    """The entry, read; None if it is no event of S3, or cannot be read."""
    name = name_of_kind(entry.event.kind)
    if name is None:
        return None
    try:
        payload = decode_event(entry.event.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return S3Event(entry.seq, name, entry.event.occurred_ms, payload)


def record_of(event: S3Event, *, rule_id: str, region: str) -> dict[str, Any]:
    """The record of an event, for whom a rule with that id has asked for it; nobody's rule is empty."""
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
    """The record of an event that is none of S3's, with its `document`, as `GET /events` has it, under `lakebed`."""
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
    found: dict[str, Any] = {"key": encode_key(payload.key)}
    if payload.key and not event.name.is_of_removal:
        found["size"] = payload.size
        if payload.etag:
            found["eTag"] = payload.etag
        if payload.content_type:
            found["contentType"] = payload.content_type
        metadata = _shown(payload.metadata)
        if metadata:
            found["userMetadata"] = metadata
    if payload.version:
        found["versionId"] = payload.version
    found["sequencer"] = sequencer_of(event.seq)
    return found


def _shown(metadata: dict[str, str]) -> dict[str, str]:
    return {f"{_META}{name}": value for name, value in metadata.items() if not name.lower().startswith(_KEPT_BACK)}


def _source(payload: ObjectEvent) -> dict[str, str]:
    host, port = payload.host, ""
    name, colon, number = payload.host.rpartition(":")
    # An address of IPv6 has colons of its own, and brackets around them where a port follows.
    if colon and number.isascii() and number.isdigit() and (":" not in name or name.endswith("]")):
        host, port = name, number
    return {"host": host, "port": port, "userAgent": payload.user_agent}


def sequencer_of(seq: int) -> str:
    """Rises with the events of a key, compared as text; with those of a bucket, and of all buckets, too."""
    return f"{seq:0{_SEQUENCER_DIGITS}X}"


def encode_key(key: str) -> str:
    """A key as records have it: as in a form, but with its slashes."""
    return quote_plus(key, safe="/*").replace("~", "%7E")


def rfc3339(ms: int) -> str:
    """A moment in UTC with three digits of fractions: `2026-01-02T03:04:05.006Z`."""
    seconds, fraction = divmod(ms, 1000)
    return f"{_second(seconds)}.{fraction:03}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """Events come in the order of time: most are of the same second as the one before."""
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
