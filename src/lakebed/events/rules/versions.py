"""Versions of notification configurations: the rules in force at an event, and the cleanup of earlier versions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from lakebed.meta.outbox import Outbox, OutboxEntry
from lakebed.meta.seam import MetaStore, Reader, Transaction

from ..names import name_of_kind
from .compiled import NO_MATCHES, CompiledRules, compiled
from .model import decode_configuration

_ANY: Final = "SELECT 1 FROM notification_versions LIMIT 1"
_OF_BUCKET: Final = "SELECT since_seq, document FROM notification_versions WHERE bucket = ? ORDER BY since_seq"
_LATEST: Final = """
SELECT v.bucket, v.document FROM notification_versions v WHERE v.document IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM notification_versions w WHERE w.bucket = v.bucket AND w.since_seq > v.since_seq
) ORDER BY v.bucket
"""
_DELETE_REPLACED: Final = """
DELETE FROM notification_versions WHERE EXISTS (
    SELECT 1 FROM notification_versions w
    WHERE w.bucket = notification_versions.bucket AND w.since_seq > notification_versions.since_seq AND w.since_seq <= ?
)
"""
_DELETE_EMPTY: Final = "DELETE FROM notification_versions WHERE document IS NULL AND since_seq <= ?"


class BucketVersions:
    """All versions of one bucket, oldest first."""

    __slots__ = ("_rules", "_since")

    def __init__(self, versions: Sequence[tuple[int, bytes | None]]) -> None:
        self._since = [since for since, _ in versions]
        self._rules = [compiled(document) for _, document in versions]

    def in_force_at(self, seq: int) -> CompiledRules | None:
        """The rules that apply to the event with that sequence number: the latest version before it."""
        index = bisect_left(self._since, seq)
        return self._rules[index - 1] if index else None


async def any_versions(reader: Reader) -> bool:
    """Whether any bucket has rules, or versions that are not trimmed yet."""
    return await reader.row(_ANY) is not None


async def versions_of(reader: Reader, bucket: str) -> BucketVersions:
    """All stored versions of a bucket."""
    return BucketVersions([(since, document) for since, document in await reader.rows(_OF_BUCKET, bucket)])


async def buckets_naming(reader: Reader, target_id: str) -> list[str]:
    """The buckets whose current rules name a target, sorted."""
    return [
        bucket
        for bucket, document in await reader.rows(_LATEST)
        if any(rule.target_id == target_id for rule in decode_configuration(document).rules)
    ]


async def trim_versions(meta: MetaStore, outbox: Outbox) -> int:
    """Delete versions that apply only to events that all cursors have passed; return their number.

    Events that are kept after the cursor, for retries, are stored with their matches.
    """

    async def work(tx: Transaction) -> int:
        cursors = [seq for _, seq in await outbox.cursors(tx)]
        passed = min(cursors) if cursors else await outbox.last_seq(tx)
        return await tx.run(_DELETE_REPLACED, passed) + await tx.run(_DELETE_EMPTY, passed)

    return await meta.transact(work)


class RuleMatcher:
    """Matches events with the stored versions. Caches nothing between calls, since other processes change rules."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        """Implements `Matcher`. Runs one query, and one per bucket among the entries."""
        if not await any_versions(self._reader):
            return [NO_MATCHES] * len(entries)
        known: dict[str, BucketVersions] = {}
        found: list[Mapping[str, str]] = []
        for entry in entries:
            name = name_of_kind(entry.event.kind)
            if name is None:
                found.append(NO_MATCHES)
                continue
            bucket, _, key = entry.event.subject.partition("/")
            versions = known.get(bucket)
            if versions is None:
                versions = known[bucket] = await versions_of(self._reader, bucket)
            rules = versions.in_force_at(entry.seq)
            found.append(NO_MATCHES if rules is None else rules.matches(name, key))
        return found
