"""Who is sent which events, as those who deliver ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lakebed.meta.outbox import Entry


class Matcher(Protocol):
    """Says which targets buckets' rules send events to."""

    async def matches(self, entries: Sequence[Entry]) -> Sequence[Mapping[str, str]]:
        """For each entry: by the id of a target, `<id>:<type>`, the id of the first rule that names it.

        Decided by the rules that held when the event happened, whenever that is asked.
        """
        ...
