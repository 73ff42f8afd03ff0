"""A server's data folder, looked into from outside: whether the rows of the catalog, its events and its files agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from lakebed.catalog.events import CatalogEvent, decode_event
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.objects.events import decode_event as decode_object_event

_MOVES = ("TableCreated", "TableCommitted", "ViewCreated", "ViewCommitted")


class Told(NamedTuple):
    """One event of the catalog."""

    kind: str
    event: CatalogEvent


class Outcome(NamedTuple):
    """What is in the outbox: the catalog's events, and the keys of the metadata files whose creation is told."""

    catalog: list[Told]
    metadata_files: list[str]


async def read_outbox(store: MetaStore) -> Outcome:
    """All of it, in order."""
    outbox = Outbox(store)
    catalog, files = [], []
    last = 0
    while entries := await outbox.read_after(store, last, 5000):
        for entry in entries:
            kind = entry.event.kind
            if kind.startswith(("Table", "View", "Namespace")):
                catalog.append(Told(kind, decode_event(entry.event.payload)))
            elif kind.startswith("ObjectCreated"):
                event = decode_object_event(entry.event.payload)
                if event.key.endswith(".metadata.json"):
                    files.append(f"s3://{event.bucket}/{event.key}")
        last = entries[-1].seq
    return Outcome(catalog, files)


async def disagreements(store: MetaStore, outcome: Outcome) -> list[str]:
    """Where pointers, the log of commits, files and events tell different stories."""
    findings = []
    moves: dict[str, list[CatalogEvent]] = defaultdict(list)
    purged: set[str] = set()
    for kind, event in outcome.catalog:
        if kind in _MOVES:
            moves[event.id].append(event)
        elif kind == "TableDropped" and event.facts.get("purge") == "true":
            purged.add(event.id)
    there = {
        f"s3://{bucket}/{key}"
        for bucket, key in await store.rows("SELECT b.name, o.key FROM objects o JOIN buckets b ON b.id = o.bucket")
    }
    for entry, events in moves.items():
        if [event.generation for event in events] != list(range(1, len(events) + 1)):
            findings.append(f"event: generations of {entry} are {[event.generation for event in events]}")
        missing = {event.metadata_at for event in events} - there
        if missing and entry not in purged:
            findings.append(f"dangling: committed metadata files are gone. entry={entry} files={missing}")
    told = [event.metadata_at for events in moves.values() for event in events]
    if sorted(told) != sorted(outcome.metadata_files):
        findings.append(f"event: moves and metadata files differ. {set(told) ^ set(outcome.metadata_files)}")
    unknown = {at for at in there if at.endswith(".metadata.json")} - set(told)
    if unknown:
        findings.append(f"torn: metadata files that no commit made. {unknown}")
    for id, at, token, generation in await store.rows("SELECT id, metadata_at, version_token, generation FROM entries"):
        if at not in there:
            findings.append(f"dangling: {id} points to {at}")
        findings += await _broken_chain(store, id, at, token, generation, moves[id])
    alone = await store.rows("SELECT entry FROM entry_commits WHERE entry NOT IN (SELECT id FROM entries)")
    if alone:
        findings.append(f"row: commits of entries that are not there. {alone}")
    return findings


async def _broken_chain(
    store: MetaStore, id: str, at: str, token: str, generation: int, events: Sequence[CatalogEvent]
) -> list[str]:
    """Whether each commit of an entry goes on where the last one ended, up to the pointer, and each has its event."""
    commits = await store.rows(
        "SELECT generation, previous_at, metadata_at, expected_token, version_token FROM entry_commits"
        " WHERE entry = ? ORDER BY generation",
        id,
    )
    findings = []
    before: tuple[str | None, str | None] = (None, None)
    for number, (made, previous_at, metadata_at, expected, version) in enumerate(commits, 1):
        if made != number or (previous_at, expected) != before:
            findings.append(f"torn: commit {made} of {id} does not follow the one before. {previous_at} != {before[0]}")
        before = (metadata_at, version)
    if (len(commits), *before) != (generation, at, token):
        findings.append(f"torn: the pointer of {id} is not where its last commit is. {generation} {at} {before}")
    if [(made, metadata_at) for made, _, metadata_at, _, _ in commits] != [
        (event.generation, event.metadata_at) for event in events
    ]:
        findings.append(f"event: commits of {id} and their events differ")
    return findings
