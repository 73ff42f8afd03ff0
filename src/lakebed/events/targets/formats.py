"""What targets that keep rows or fields make of a message: a mirror of what there is, or a log of what happened."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from .seam import EventMessage


class Format(StrEnum):
    """What becomes of messages about one key."""

    NAMESPACE = "namespace"
    """One entry a key, which the last message replaces, and which goes with what it is about."""

    ACCESS = "access"
    """One entry a message."""


class _Records(msgspec.Struct):
    records: list[msgspec.Raw] | None = msgspec.field(name="Records", default=None)


def records_of(message: EventMessage) -> list[msgspec.Raw]:
    """The S3 records in a message; the whole document, if it has another form."""
    try:
        found = msgspec.json.decode(message.body, type=_Records).records
    except msgspec.DecodeError:
        found = None
    return [msgspec.Raw(message.body)] if found is None else found


def occurred_at(message: EventMessage) -> datetime:
    """When it happened."""
    return datetime.fromtimestamp(message.occurred_ms / 1000, UTC)
