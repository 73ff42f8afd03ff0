"""Inspects the data folder of a server: whether the rows of the catalog, its events and its files agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from lakebed.catalog.events import CatalogEvent, decode_event
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.objects.events import decode_event as decode_object_event

_COMMITS = ("TableCreated", "TableCommitted", "ViewCreated", "ViewCommitted")


class RecordedEvent(NamedTuple):
    """A catalog event with its kind."""

    kind: str
    event: CatalogEvent


class OutboxContents(NamedTuple):
    """The events of the catalog, and the locations of created metadata files."""

    catalog: list[RecordedEvent]
    metadata_files: list[str]


async def read_outbox(store: MetaStore) -> OutboxContents:
    """Read the whole outbox, in order."""
    outbox = Outbox(store)
    catalog, files = [], []
    last = 0
    while entries := await outbox.read_after(store, last, 5000):
        for entry in entries:
            kind = entry.event.kind
            if kind.startswith(("Table", "View", "Namespace")):
                catalog.append(RecordedEvent(kind, decode_event(entry.event.payload)))
            elif kind.startswith("ObjectCreated"):
                event = decode_object_event(entry.event.payload)
                if event.key.endswith(".metadata.json"):
                    files.append(f"s3://{event.bucket}/{event.key}")
        last = entries[-1].seq
    return OutboxContents(catalog, files)


async def find_inconsistencies(store: MetaStore, outcome: OutboxContents) -> list[str]:
    """Find disagreements between metadata pointers, the commit log, files and events."""
    findings = []
    commits: dict[str, list[CatalogEvent]] = defaultdict(list)
    purged: set[str] = set()
    for kind, event in outcome.catalog:
        if kind in _COMMITS:
            commits[event.id].append(event)
        elif kind == "TableDropped" and event.facts.get("purge") == "true":
            purged.add(event.id)
    existing = {
        f"s3://{bucket}/{key}"
        for bucket, key in await store.rows("SELECT b.name, o.key FROM objects o JOIN buckets b ON b.id = o.bucket")
    }
    for entry, events in commits.items():
        if [event.generation for event in events] != list(range(1, len(events) + 1)):
            findings.append(f"event: generations of {entry} are {[event.generation for event in events]}")
        missing = {event.metadata_at for event in events} - existing
        if missing and entry not in purged:
            findings.append(f"dangling: committed metadata files are missing. entry={entry} files={missing}")
    event_files = [event.metadata_at for events in commits.values() for event in events]
    if sorted(event_files) != sorted(outcome.metadata_files):
        findings.append(f"event: commits and metadata files differ. {set(event_files) ^ set(outcome.metadata_files)}")
    unknown = {at for at in existing if at.endswith(".metadata.json")} - set(event_files)
    if unknown:
        findings.append(f"torn: metadata files without a commit. {unknown}")
    for id, at, token, generation in await store.rows("SELECT id, metadata_at, version_token, generation FROM entries"):
        if at not in existing:
            findings.append(f"dangling: {id} points to {at}")
        findings += await _check_commit_chain(store, id, at, token, generation, commits[id])
    orphaned = await store.rows("SELECT entry FROM entry_commits WHERE entry NOT IN (SELECT id FROM entries)")
    if orphaned:
        findings.append(f"row: commits of missing entries. {orphaned}")
    return findings


async def _check_commit_chain(
    store: MetaStore, id: str, at: str, token: str, generation: int, events: Sequence[CatalogEvent]
) -> list[str]:
    """Check that the commits of an entry form a chain that ends at the pointer, and that each has its event."""
    commits = await store.rows(
        "SELECT generation, previous_at, metadata_at, expected_token, version_token FROM entry_commits"
        " WHERE entry = ? ORDER BY generation",
        id,
    )
    findings = []
    before: tuple[str | None, str | None] = (None, None)
    for number, (own_generation, previous_at, metadata_at, expected, version) in enumerate(commits, 1):
        if own_generation != number or (previous_at, expected) != before:
            findings.append(
                f"torn: commit {own_generation} of {id} does not follow its predecessor. {previous_at} != {before[0]}"
            )
        before = (metadata_at, version)
    if (len(commits), *before) != (generation, at, token):
        findings.append(f"torn: the pointer of {id} is not its last commit. {generation} {at} {before}")
    if [(own_generation, metadata_at) for own_generation, _, metadata_at, _, _ in commits] != [
        (event.generation, event.metadata_at) for event in events
    ]:
        findings.append(f"event: commits of {id} and their events differ")
    return findings
