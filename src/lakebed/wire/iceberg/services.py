"""Services called by the handlers of the Iceberg REST catalog API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.commits.metadata_pointers import PointerMoves
from lakebed.catalog.commits.refs import BranchesAndTags
from lakebed.catalog.commits.rollback import Rollback
from lakebed.catalog.commits.service import Commits
from lakebed.catalog.diagnostics.catalog_inventory import CatalogInventories
from lakebed.catalog.diagnostics.recovery import Recovery
from lakebed.catalog.diagnostics.table_diagnostics import TableDiagnostics
from lakebed.catalog.entries import Entries
from lakebed.catalog.external.bridges.service import Bridges
from lakebed.catalog.external.bridges.sync_requests import SyncOnRequest
from lakebed.catalog.external.federation.service import Federation
from lakebed.catalog.external.notifications import NotificationReceiver
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.catalog.maintenance.jobs.service import MaintenanceJobs
from lakebed.catalog.namespaces import Namespaces
from lakebed.catalog.scans.scan_plans import ScanPlans
from lakebed.catalog.tables.creation import Creation
from lakebed.catalog.tables.discovery import TableDiscovery
from lakebed.catalog.tables.drops import Dropping
from lakebed.catalog.tables.imports import Imports
from lakebed.catalog.tables.metrics_reports import MetricsReports
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.catalog.tables.renaming import Renaming
from lakebed.catalog.tables.views import Views
from lakebed.core.clock import Clock
from lakebed.meta.seam import MetaStore
from lakebed.wire.json.table_access import TableAccess

DeletedKeys = Callable[[bytes], Sequence[str]]
"""Reads the keys in the body of an S3 DeleteObjects request. Raises InvalidInput."""


@dataclass(frozen=True, slots=True)
class TableExtensions:
    """Services behind the extensions to the Iceberg REST specification."""

    refs: BranchesAndTags
    pointers: PointerMoves
    rollback: Rollback
    imports: Imports
    diagnostics: TableDiagnostics
    recovery: Recovery
    inventories: CatalogInventories
    bridges: Bridges
    syncs: SyncOnRequest
    discovery: TableDiscovery


@dataclass(frozen=True, slots=True)
class IcebergServices:
    """Services behind the Iceberg REST routes."""

    meta: MetaStore
    clock: Clock
    catalogs: CatalogService
    namespaces: Namespaces
    entries: Entries
    creation: Creation
    commits: Commits
    registration: TableRegistration
    views: Views
    dropping: Dropping
    renaming: Renaming
    notifications: NotificationReceiver
    reports: MetricsReports
    scans: ScanPlans
    keys: IdempotencyKeys
    data_access: DataAccess
    access: TableAccess
    deleted_keys: DeletedKeys
    extensions: TableExtensions
    maintenance: MaintenanceJobs
    federation: Federation
