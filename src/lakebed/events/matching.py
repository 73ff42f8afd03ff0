"""Who is sent which events: what those who deliver ask, and what those who configure it have to know of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from lakebed.meta.outbox import OutboxEntry
from lakebed.meta.seam import Reader


class Matcher(Protocol):
    """Says which targets buckets' rules send events to."""

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        """For each entry: by the id of a target, `<id>:<type>`, the id of the first rule that names it.

        Decided by the rules that held when the event happened, whenever that is asked. What is kept of an event for
        longer than its reader's cursor is before it has to be kept with the answer: old rules are forgotten.
        """
        ...


class TargetLookup(Protocol):
    """Says which targets there are."""

    async def knows(self, tx: Reader, target_id: str) -> bool:
        """Whether there is a target `<id>:<type>`, as things are inside the transaction."""
        ...


class NoTargets:
    """For a server without any target."""

    async def knows(self, tx: Reader, target_id: str) -> bool:
        """No."""
        return False


NO_TARGETS: Final = NoTargets()
