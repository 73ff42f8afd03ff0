"""Wires the catalog of one worker: its services on the object store's, and its edge."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass
from typing import Final

from lakebed.core.access import CredentialSource
from lakebed.governance.vault import MasterKeys
from lakebed.governance.vending import Vending
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.facilities import Facilities
from lakebed.objects.reading import ObjectReader
from lakebed.objects.writing import ObjectWriter
from lakebed.tables.bridges.polling import Polling
from lakebed.tables.cache import MetadataCache
from lakebed.tables.committing import Commits
from lakebed.tables.creating import Creation
from lakebed.tables.data_access import DataAccess
from lakebed.tables.dropping import Dropping
from lakebed.tables.entries import Entries
from lakebed.tables.files import TableFiles
from lakebed.tables.gate import Gate
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.maintenance.service import wire_maintenance
from lakebed.tables.namespaces import Namespaces
from lakebed.tables.publishing import Publisher
from lakebed.tables.purging import PurgeWorker
from lakebed.tables.registering import Registration
from lakebed.tables.renaming import Renaming
from lakebed.tables.reports import Reports
from lakebed.tables.scanning import Scans
from lakebed.tables.validation.commit import CommitValidator
from lakebed.tables.views import Views
from lakebed.tables.warehouses import Warehouses
from lakebed.wire.iceberg.app import CatalogApplication, Observe
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.iceberg.request import MAX_BODY_BYTES
from lakebed.wire.iceberg.services import CatalogServices
from lakebed.wire.iceberg.store_address import StoreAddress
from lakebed.wire.s3.authenticate import Authenticator

from .catalog_extensions import wire_extensions
from .table_chores import TableChores

SAFETY_WINDOW_MS: Final = 900_000
"""How old a file is at least that maintenance removes, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog's edge, and what runs beside it."""

    application: CatalogApplication
    services: CatalogServices
    chores: TableChores
    polling: Polling


def wire_catalog(
    facilities: Facilities,
    credentials: CredentialSource,
    vending: Vending,
    store: StoreAddress,
    observe: Observe,
    master: MasterKeys,
    *,
    safety_window_ms: int = SAFETY_WINDOW_MS,
) -> Catalog:
    """The catalog on an object store."""
    meta, clock = facilities.meta, facilities.clock
    reader, writer, deleter = ObjectReader(facilities), ObjectWriter(facilities), ObjectDeleter(facilities)
    tasks = TaskQueue(meta, clock, random.SystemRandom())
    gate = Gate(facilities)
    cache = MetadataCache()
    files = TableFiles(facilities, writer, reader)
    keys = IdempotencyKeys(meta, clock)
    warehouses = Warehouses(facilities, gate)
    entries = Entries(meta, files, gate, cache)
    publisher = Publisher(facilities, files, entries, keys)
    validator = CommitValidator(files)
    commits = Commits(facilities, gate, entries, files, publisher, validator, cache, deleter)
    registration = Registration(facilities, gate, entries, files, publisher, validator, cache)
    extensions = wire_extensions(facilities, gate, warehouses, entries, files, commits, registration, master)
    dropping = Dropping(facilities, gate, warehouses, entries, keys, tasks)
    reports = Reports(facilities, entries)
    scans = Scans(meta, files, entries, commits, clock)
    worker_id = f"{socket.gethostname()}:{os.getpid()}"
    maintenance, background = wire_maintenance(
        facilities,
        gate,
        warehouses,
        entries,
        files,
        commits,
        tasks,
        safety_window_ms=safety_window_ms,
        worker_id=worker_id,
    )
    services = CatalogServices(
        authenticator=Authenticator(credentials, clock, plain=True, max_body_bytes=MAX_BODY_BYTES),
        meta=meta,
        clock=clock,
        warehouses=warehouses,
        namespaces=Namespaces(facilities, gate, warehouses, keys),
        entries=entries,
        creation=Creation(facilities, gate, entries, files, publisher, cache),
        commits=commits,
        registration=registration,
        views=Views(facilities, gate, entries, files, publisher, cache),
        dropping=dropping,
        renaming=Renaming(facilities, gate, entries, keys),
        reports=reports,
        scans=scans,
        keys=keys,
        data_access=DataAccess(meta, gate),
        vending=vending,
        store=store,
        region=facilities.region,
        extensions=extensions.tables,
        maintenance=maintenance,
    )
    return Catalog(
        CatalogApplication(services, catalog_routes(), clock=clock, observe=observe),
        services,
        TableChores(
            dropping, keys, reports, scans, background, PurgeWorker(facilities, deleter, tasks, worker_id), tasks
        ),
        extensions.polling,
    )
