"""Matches events with the rules of their buckets, as these were when the events happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakebed.meta.outbox import OutboxEntry
from lakebed.meta.seam import Reader

from ..names import name_of_kind
from .compiled import NOTHING
from .versions import BucketVersions, any_versions, versions_of


class RuleMatcher:
    """A matcher over the versions in the store. Remembers nothing between calls that somebody could change."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        """As `Matcher` has it. One read, and one for each bucket with events among the entries."""
        if not await any_versions(self._reader):
            return [NOTHING] * len(entries)
        known: dict[str, BucketVersions] = {}
        found: list[Mapping[str, str]] = []
        for entry in entries:
            name = name_of_kind(entry.event.kind)
            if name is None:
                found.append(NOTHING)
                continue
            bucket, _, key = entry.event.subject.partition("/")
            versions = known.get(bucket)
            if versions is None:
                versions = known[bucket] = await versions_of(self._reader, bucket)
            rules = versions.in_force_at(entry.seq)
            found.append(NOTHING if rules is None else rules.matches(name, key))
        return found
