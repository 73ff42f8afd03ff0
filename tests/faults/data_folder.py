"""Inspects the data folder of a server: its events, its blobs, and the consistency of its rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.sqlite.store import SqliteStore
from lakebed.objects.blobs.ingest import BLOBS_PREFIX
from lakebed.objects.events import decode_event
from lakebed.objects.model import unpack_extent, unpack_layout
from lakebed.server.stores.metadata import SQLITE_FILE
from lakebed.server.stores.object_store import BYTES_FOLDER

from .ledger import Change


@dataclass(frozen=True, slots=True)
class Blobs:
    """The ids of blobs: of files, of rows, of garbage, and of references in layouts and parts."""

    files: frozenset[str]
    rows: frozenset[str]
    garbage: frozenset[str]
    referenced: frozenset[str]

    @property
    def orphans(self) -> frozenset[str]:
        """Files without a row."""
        return self.files - self.rows - self.garbage


@asynccontextmanager
async def metadata_of(data: Path) -> AsyncIterator[SqliteStore]:
    """The metadata store. The server may run meanwhile: processes share the store."""
    store = await SqliteStore.open(data / SQLITE_FILE)
    try:
        yield store
    finally:
        await store.close()


async def read_changes(store: SqliteStore) -> list[Change]:
    """All changes in the outbox, in order. Failed attempts changed nothing."""
    outbox = Outbox(store)
    changes: list[Change] = []
    last = 0
    while entries := await outbox.read_after(store, last, 5000):
        for entry in entries:
            if entry.event.kind.startswith("Attempt"):
                continue
            event = decode_event(entry.event.payload)
            changes.append(
                Change(
                    entry.event.kind,
                    event.bucket,
                    event.key,
                    event.etag,
                    event.size,
                    event.version,
                    event.request_id,
                )
            )
        last = entries[-1].seq
    return changes


async def read_blobs(store: MetaStore, data: Path) -> Blobs:
    """Read the ids of all blobs."""
    referenced = set()
    for (layout,) in await store.rows("SELECT layout FROM contents WHERE layout IS NOT NULL"):
        referenced |= {piece.blob for piece in unpack_layout(layout) if piece.blob is not None}
    for (piece,) in await store.rows("SELECT piece FROM parts"):
        referenced |= {blob for blob in (unpack_extent(piece).blob,) if blob is not None}
    return Blobs(
        files=frozenset(blob_files(data)),
        rows=frozenset(row[0] for row in await store.rows("SELECT id FROM blobs")),
        garbage=frozenset(row[0] for row in await store.rows("SELECT id FROM garbage")),
        referenced=frozenset(referenced),
    )


def blob_files(data: Path) -> list[str]:
    """The names of all blob files, without the deployment id beside their folder."""
    blobs = data / BYTES_FOLDER / "objects" / BLOBS_PREFIX
    return [name.removesuffix("@") for _, _, names in os.walk(blobs) for name in names]


def temporary_files(data: Path) -> list[str]:
    """Files of unfinished or interrupted writes."""
    folder = data / BYTES_FOLDER / "tmp"
    return os.listdir(folder) if folder.is_dir() else []


async def miscounted_contents(store: SqliteStore) -> list[tuple[int, int, int]]:
    """Contents with a wrong reference count: id, stored count, actual count."""
    found: Counter[int] = Counter()
    for table in ("objects", "versions"):
        for (content,) in await store.rows(f"SELECT content FROM {table} WHERE content IS NOT NULL"):
            found[content] += 1
    # A composed content counts as a reference to its base content.
    for (base,) in await store.rows("SELECT lender FROM contents WHERE lender IS NOT NULL"):
        found[base] += 1
    stored: dict[int, int] = {row[0]: row[1] for row in await store.rows("SELECT id, refs FROM contents")}
    return [(id, stored.get(id, 0), found[id]) for id in stored.keys() | found if stored.get(id, 0) != found[id]]


async def release_leases(store: SqliteStore) -> None:
    """Release leases of dead servers, which would prevent sweeps for a minute."""

    async def work(tx: Transaction) -> None:
        await tx.run("DELETE FROM leases")

    await store.transact(work)
