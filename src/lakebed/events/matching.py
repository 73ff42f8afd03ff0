"""Protocols between bucket rules and targets: which targets an event goes to, and which targets exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from lakebed.meta.outbox import OutboxEntry
from lakebed.meta.seam import Reader


class Matcher(Protocol):
    """Finds the targets of events by the rules of their buckets."""

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        """For each entry: target ids (`<id>:<type>`), each with the id of the first rule that names it.

        The rules in force at the time of the event decide, however late it is matched. Versions of rules are deleted
        once all cursors have passed them, so events that are kept longer must be kept with their matches.
        """
        ...


class TargetLookup(Protocol):
    """Checks whether targets exist."""

    async def exists(self, tx: Reader, target_id: str) -> bool:
        """Whether the target `<id>:<type>` exists in the transaction."""
        ...


class NoTargets:
    """For a server without targets."""

    async def exists(self, tx: Reader, target_id: str) -> bool:
        """Always False."""
        return False


NO_TARGETS: Final = NoTargets()
