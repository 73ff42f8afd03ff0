"""Catalog services for administration commands, without HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.commits.metadata_cache import MetadataCache
from lakebed.catalog.entries import Entries
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.catalog.tables.drops import Dropping
from lakebed.catalog.tables.served_files import ServedFiles
from lakebed.core.clock import SystemClock
from lakebed.core.settings import Settings
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.model import Caller
from lakebed.objects.reading import ObjectReader
from lakebed.objects.writing import ObjectWriter

from .composition import build_foundation
from .external_storage import ExternalStorage, wire_external_storage
from .stores.identity import require_identity, root_credential
from .stores.metadata import open_metadata
from .stores.object_store import confirm_object_store, open_storage


@dataclass(frozen=True, slots=True)
class TableAdministration:
    """The services, and the caller: root."""

    root: Caller
    catalogs: CatalogService
    dropping: Dropping
    external: ExternalStorage


@asynccontextmanager
async def opened_tables(settings: Settings) -> AsyncIterator[TableAdministration]:
    """Open the stores of a data folder, also while a server runs on it; closes them at the end."""
    identity = require_identity(settings)
    clock = SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    meta = await open_metadata(settings, master)
    try:
        storage, open_writer = await open_storage(settings, clock)
        try:
            ownership = await confirm_object_store(settings, meta, storage)
            object_context = build_foundation(
                settings, identity, master, clock, meta, storage, ownership, open_writer
            ).object_context
            authorizer = CatalogAuthorizer(object_context)
            catalogs = CatalogService(object_context, authorizer)
            served = ServedFiles(
                object_context,
                ObjectWriter(object_context),
                ObjectReader(object_context),
                ObjectDeleter(object_context),
            )
            external = wire_external_storage(settings.external_storage, meta, clock, served)
            entries = Entries(meta, external.files, authorizer, MetadataCache())
            keys, tasks = IdempotencyKeys(meta, clock), TaskQueue(meta, clock, random.SystemRandom())
            try:
                yield TableAdministration(
                    Caller(root_credential(identity).principal),
                    catalogs,
                    Dropping(object_context, authorizer, catalogs, entries, keys, tasks),
                    external,
                )
            finally:
                object_context.ingester.close()
                await external.stores.close()
        finally:
            await asyncio.shield(storage.close())
    finally:
        await asyncio.shield(meta.close())
