"""Authorization of task submissions: a task is checked, and completed with defaults, before it enters the queue.

Workers run jobs with their own permissions. So the principal that submits a task needs the permissions for everything
that the job reads and writes.
"""

from __future__ import annotations

from typing import Final

import msgspec

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer, ServerAction
from lakebed.catalog.access.directory_permissions import check_directory_rights
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.entries import Entries, NameLookup
from lakebed.catalog.external.checks import check_internal_catalog
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import Catalog, EntryKind
from lakebed.catalog.rows import LOCATIONS_WITHIN
from lakebed.catalog.tables.files import SCHEMES, parse_location
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, Option, TaskSpec
from lakebed.governance.delegation.vending import DirectoryActions, directory_actions
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.context import ObjectContext
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller

from ..health import health_from_summary
from ..rules.costs import estimate_cost
from ..rules.job_options import check_options
from .history import TaskHistory

__all__ = ["TaskAuthorization"]

MAX_REASON_CHARS: Final = 1024

_END: Final = "\U0010ffff"
"""Greater than any key."""

_COPIES: Final = DirectoryActions(("s3:GetObject",), ("s3:ListBucket",), ())
"""The S3 actions for copying the files of a folder."""

_CREATES_TABLE: Final = frozenset({JobKind.IMPORT, JobKind.EXPORT_EVENTS, JobKind.INGEST, JobKind.TIER_STREAM})
"""Jobs that may create their table."""


class TaskAuthorization:
    """Authorizes submissions."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        entries: Entries,
        history: TaskHistory,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._entries = entries
        self._history = history

    async def authorize(self, caller: Caller, spec: TaskSpec) -> TaskSpec:
        """The task as it enters the queue. Raises AccessDenied, NoSuchCatalog, NoSuchTable, InvalidInput.

        Sets the policy, cost and principal of the task; those of the request are ignored.
        """
        await self._authorizer.check_server(caller, ServerAction.SUBMIT_TASK)
        if spec.job is JobKind.COPY_RESTRICTED:
            raise InvalidInput(
                "restricted copies are created by scan planning, not by submitting a task", argument="job"
            )
        options = check_options(spec.job, spec.options)
        plain = TaskSpec(
            job=spec.job,
            warehouse=spec.warehouse,
            options=options,
            reason=spec.reason[:MAX_REASON_CHARS] or f"requested by {caller.principal.name}",
            requested_by=caller.principal.name,
        )
        if spec.job is JobKind.EXPORT_EVENTS:
            # Readers of the table can read the events.
            await self._authorizer.check_server(caller, ServerAction.READ_EVENTS)
            if not spec.namespace and not spec.table:
                catalog = await self._catalogs.find(self._f.meta, spec.warehouse)
                await self._authorizer.check(caller, catalog, Action.CREATE_TABLE)
                check_internal_catalog(catalog, "run a job")
                return plain
        if spec.job is JobKind.TIER_STREAM:
            # Its worker reads the stream with its own permissions, so the caller needs those of a worker.
            await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)
        identifier = check_identifier(spec.namespace, spec.table)
        named = msgspec.structs.replace(plain, namespace=identifier.namespace, table=identifier.name)
        lookup = await self._entries.look_up(self._f.meta, spec.warehouse, identifier)
        check_internal_catalog(lookup.catalog, "run a job")
        if spec.job is JobKind.IMPORT:
            await self._check_source(caller, lookup.catalog, identifier, options)
        if spec.job in _CREATES_TABLE and lookup.live is None:
            namespace, name = identifier
            await self._authorizer.check(caller, lookup.catalog, Action.CREATE_TABLE, namespace=namespace, name=name)
            return named
        return await self._on_table(caller, lookup, named)

    async def _on_table(self, caller: Caller, lookup: NameLookup, spec: TaskSpec) -> TaskSpec:
        """The task of an existing table, with its estimated cost."""
        known = await self._entries.authorize_entry(caller, lookup, EntryKind.TABLE, Action.RUN_MAINTENANCE)
        health = health_from_summary(known, (await self._entries.metadata(known.catalog, known.entry)).table)
        speeds = await self._history.speeds(self._f.meta)
        cost = estimate_cost(spec.job, health.data_files or 0, health.data_bytes or 0, speeds)
        return msgspec.structs.replace(spec, entry=known.entry.id, cost=cost)

    async def _check_tables(self, caller: Caller, bucket: Bucket, directory: str) -> None:
        """Return if the caller can read every table in a directory, and the table that contains it.

        Raises AccessDenied: a worker reads for the caller, and must not read more than the caller can.
        """
        end = successor(directory) or _END
        inside = await self._f.meta.rows(LOCATIONS_WITHIN, bucket.id, directory, end)
        for prefix in (directory, *(str(row[0]) for row in inside)):
            await self._f.table_buckets.authorize(caller, bucket, "s3:GetObject", prefix)

    async def _check_source(
        self, caller: Caller, catalog: Catalog, identifier: Identifier, options: dict[str, Option]
    ) -> None:
        """Return if the caller can read the source of an import. Raises AccessDenied, NoSuchBucket, InvalidInput."""
        source = options.get("source")
        if isinstance(source, str) and source.startswith(SCHEMES):
            address = parse_location(source)
            bucket = await self._f.bucket(self._f.meta, address.bucket)
            directory = address.directory if address.key.strip("/") else ""
            # An import in place claims the folder: its files become accessible with permissions on the table.
            in_place = options.get("mode") != "copy" and catalog.holds(bucket.name, directory)
            actions = directory_actions(writes=True) if in_place else _COPIES
            await check_directory_rights(self._f, caller, bucket, directory, actions)
            if bucket.holds_tables:
                await self._check_tables(caller, bucket, directory)
            return
        if source is None and "source-table" not in options:
            raise InvalidInput("an import requires source or source-table", argument="source")
        # Another system: connecting to it requires the permission for bridges.
        namespace, name = identifier
        await self._authorizer.check(caller, catalog, Action.CONFIGURE_BRIDGE, namespace=namespace, name=name)
