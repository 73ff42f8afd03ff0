"""The two logs that a target is served from: the outbox and the request log, each with its own cursor.

Waiting deliveries of both are in one table, distinguished by sequence number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.meta.outbox import FIRST_REQUEST, Outbox, OutboxEntry, OutboxEvent

from .model import TargetRecord
from .outbox_reader import OutboxReader

EVENTS: Final = range(FIRST_REQUEST)
"""Sequence numbers of events."""
REQUESTS: Final = range(FIRST_REQUEST, 2**63 - 1)
"""Sequence numbers of requests."""

LoopProof = Callable[[str], str]
"""Computes the loop guard's header for a message id."""


@dataclass(frozen=True, slots=True)
class DeliveryQueue:
    """One log, as a target consumes it."""

    log: Outbox
    reader: OutboxReader
    cursor: str
    """The name of the target's cursor."""
    seqs: range
    matches: Callable[[OutboxEvent], bool]
    """Whether the target's subscription includes an entry."""
    form_for: Callable[[str], str]
    """The form of an entry that a bucket rule matched, or the subscription if the rule is empty."""
    prove: LoopProof | None = None


def queue_of_events(record: TargetRecord, log: Outbox, reader: OutboxReader) -> DeliveryQueue:
    """The outbox, for events that the subscription or a bucket rule matches."""
    return DeliveryQueue(log, reader, record.cursor, EVENTS, record.subscription.matches, record.form_for)


def queue_of_requests(record: TargetRecord, log: Outbox, reader: OutboxReader, prove: LoopProof) -> DeliveryQueue:
    """The whole request log."""
    return DeliveryQueue(log, reader, record.id, REQUESTS, lambda _: True, lambda _: record.form_of_requests, prove)


class NoBucketRules:
    """The `Matcher` of requests: bucket rules never match them."""

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        """No targets for each entry."""
        return [{}] * len(entries)
