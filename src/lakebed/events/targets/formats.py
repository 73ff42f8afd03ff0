"""Storage formats of targets with rows or fields: a mirror of current objects, or a log of events."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from .seam import EventMessage


class Format(StrEnum):
    """How a target stores messages. The names are MinIO's."""

    NAMESPACE = "namespace"
    """A mirror: one entry per key, replaced by later messages and deleted with the object."""

    ACCESS = "access"
    """A log: one entry per message."""


class _Records(msgspec.Struct):
    records: list[msgspec.Raw] | None = msgspec.field(name="Records", default=None)


def records_of(message: EventMessage) -> list[msgspec.Raw]:
    """The S3 records in a message; the whole document in other forms."""
    try:
        found = msgspec.json.decode(message.body, type=_Records).records
    except msgspec.DecodeError:
        found = None
    return [msgspec.Raw(message.body)] if found is None else found


def occurred_at(message: EventMessage) -> datetime:
    """The time of the event, in UTC."""
    return datetime.fromtimestamp(message.occurred_ms / 1000, UTC)
