"""Removes the files of tables that were dropped with a purge, in a task, a page of keys at a time.

Directories of tables do not overlap, so everything in a table's directories is its own, whatever its manifests list:
delete files, statistics, old metadata and files of failed writers included. In external storage, where others write
too, only files that the metadata refers to are removed (`external.storage.purging`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from lakebed.core.access import root_of
from lakebed.core.errors import Fenced, LakebedError, NoSuchBucket, StateConflict
from lakebed.core.ids import BucketId
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskLease, TaskQueue
from lakebed.objects.buckets.bucket import EXTERNAL
from lakebed.objects.context import ObjectContext
from lakebed.objects.deleting import ObjectDeleter, ObjectIdentifier
from lakebed.objects.model import Caller
from lakebed.objects.rows import listed_versions_after

from .. import rows
from ..external.storage.purging import purge_external
from .drops import PURGE_KIND, PurgePayload, decode_purge
from .files import CatalogFiles

_PAGE_KEYS: Final = 1000
_LEASE_SECONDS: Final = 120.0
_BEFORE_ALL_VERSIONS: Final = -(2**62)
"""A rank below that of any version."""


class PurgeOutcome(msgspec.Struct, frozen=True):
    """The result of a purge."""

    removed: int
    """Removed object versions and delete markers."""
    kept: int
    """Versions under retention or a legal hold."""


class PurgeWorker:
    """Runs purge tasks."""

    def __init__(
        self,
        object_context: ObjectContext,
        files: CatalogFiles,
        deleter: ObjectDeleter,
        tasks: TaskQueue,
        worker: str,
    ) -> None:
        self._f = object_context
        self._files = files
        self._deleter = deleter
        self._tasks = tasks
        self._worker = worker

    async def run_due(self) -> int:
        """Run all due tasks. Returns their number."""
        done = 0
        while claims := await self._tasks.claim([PURGE_KIND], self._worker, _LEASE_SECONDS):
            await self._run(claims[0])
            done += 1
        return done

    async def _run(self, claim: TaskLease) -> None:
        try:
            await self._purge(claim)
        except Fenced:
            # The lease expired and another worker has the task: it removes the rest.
            return
        except LakebedError as error:
            with suppress(Fenced):
                await self._tasks.fail(claim, str(error))

    async def _purge(self, claim: TaskLease) -> None:
        purge = decode_purge(claim.task.payload)
        removed = kept = 0
        if purge.bucket_name.startswith(EXTERNAL):
            removed = await self._purge_external(claim, purge)
        else:
            for prefix in purge.prefixes:
                deleted, held = await self._empty(claim, purge, prefix)
                removed += deleted
                kept += held

        async def work(tx: Transaction) -> None:
            await tx.run(rows.DELETE_LOCATIONS, purge.entry)
            await self._tasks.complete(tx, claim, msgspec.json.encode(PurgeOutcome(removed, kept)))

        await self._f.meta.transact(work)

    async def _purge_external(self, claim: TaskLease, purge: PurgePayload) -> int:
        """Remove the table's files from external storage. Raises StateConflict if the catalog does not exist."""
        row = await self._f.meta.row(rows.CATALOG, purge.catalog)
        catalog = None if row is None else rows.catalog_from(row)
        if catalog is None or catalog.bucket.id != purge.bucket:
            raise StateConflict(
                f"catalog of the purged table was deleted: remove its files from the store. catalog={purge.catalog}"
                f" bucket={purge.bucket_name} prefixes={', '.join(purge.prefixes)}"
            )

        async def heartbeat() -> None:
            await self._tasks.heartbeat(claim, _LEASE_SECONDS)

        return await purge_external(
            self._files.of(catalog), catalog.bucket_name, purge.prefixes, purge.metadata_at, heartbeat
        )

    async def _empty(self, claim: TaskLease, purge: PurgePayload, prefix: str) -> tuple[int, int]:
        removed = kept = 0
        bucket_name = purge.bucket_name or purge.catalog
        try:
            bucket = await self._f.bucket(self._f.meta, bucket_name)
        except NoSuchBucket:
            return 0, 0
        system = Caller(root_of(bucket.owner))
        key, rank = prefix, _BEFORE_ALL_VERSIONS
        while True:
            # Every version by its id: in a versioned bucket a simple delete would only hide the files.
            page = await listed_versions_after(self._f.meta, BucketId(purge.bucket), key, rank, _PAGE_KEYS)
            objects = [ObjectIdentifier(row[0], row[2]) for row in page if row[0].startswith(prefix)]
            if not objects:
                return removed, kept
            await self._tasks.heartbeat(claim, _LEASE_SECONDS)
            outcomes = await self._deleter.delete_many(system, bucket_name, objects)
            failed = sum(isinstance(outcome, LakebedError) for outcome in outcomes)
            removed += len(outcomes) - failed
            kept += failed
            key, rank = page[-1][0], page[-1][1]
