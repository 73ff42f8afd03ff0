"""Sample events."""

from __future__ import annotations

import msgspec

from lakebed.core.ids import DeploymentId
from lakebed.events.ids import EventIds
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from lakebed.objects.events import ObjectEvent

IDS = EventIds(DeploymentId("abcdefghijklmnopqrstuvwxyz"))

OCCURRED_MS = 1_772_600_767_089
"""2026-03-04T05:06:07.089Z"""


def s3_entry(
    kind: str, bucket: str = "sales", key: str = "in/2026 Q1.csv", *, seq: int = 42, **overrides: object
) -> OutboxEntry:
    """An S3 event with default fields, except for `overrides`."""
    fields: dict[str, object] = {"bucket": bucket, "key": key, "principal": "ann", "account": "000000000000"}
    payload = msgspec.msgpack.encode(ObjectEvent(**(fields | overrides)))  # type: ignore[arg-type]  # fields of the event
    return OutboxEntry(seq, OutboxEvent(kind, f"{bucket}/{key}" if key else bucket, payload, OCCURRED_MS))


def other_entry(kind: str = "TableCommitted", subject: str = "lake/ns/t", *, seq: int = 7) -> OutboxEntry:
    """An event that is not from S3."""
    payload = msgspec.msgpack.encode({"name": "t", "principal": "bob", "source_ip": "10.0.0.7", "request_id": "R9"})
    return OutboxEntry(seq, OutboxEvent(kind, subject, payload, OCCURRED_MS))
