"""What a target is sent from: the outbox, and the log of requests. Each has its place in either, and they do not mix.

What waits is told apart by its number: requests are numbered from where no event comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.meta.outbox import FIRST_REQUEST, Outbox, OutboxEntry, OutboxEvent

from .model import TargetRecord
from .outbox_reader import OutboxReader

EVENTS: Final = range(FIRST_REQUEST)
REQUESTS: Final = range(FIRST_REQUEST, 2**63 - 1)
"""The numbers of either."""

LoopProof = Callable[[str], str]
"""What is sent beside a message with that id, so that this server knows it for its own if it comes to itself."""


@dataclass(frozen=True, slots=True)
class DeliveryQueue:
    """A log as one target is served from it."""

    log: Outbox
    feed: OutboxReader
    cursor: str
    """The name of the target's place."""
    numbers: range
    matches: Callable[[OutboxEvent], bool]
    """Whether the target itself asks for an entry."""
    form_for: Callable[[str], str]
    """The form of an entry that a rule asked for, or the target itself if that is empty."""
    prove: LoopProof | None = None


def queue_of_events(record: TargetRecord, log: Outbox, feed: OutboxReader) -> DeliveryQueue:
    """What happens, as far as the target or a rule asks for it."""
    return DeliveryQueue(log, feed, record.cursor, EVENTS, record.subscription.matches, record.form_for)


def queue_of_requests(record: TargetRecord, log: Outbox, feed: OutboxReader, prove: LoopProof) -> DeliveryQueue:
    """Every request."""
    return DeliveryQueue(log, feed, record.id, REQUESTS, lambda _: True, lambda _: record.form_of_requests, prove)


class NoBucketRules:
    """The `Matcher` of requests: no rule of a bucket names them."""

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        """Nobody, for each."""
        nobody: Mapping[str, str] = {}
        return [nobody] * len(entries)
