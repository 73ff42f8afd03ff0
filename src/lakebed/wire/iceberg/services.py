"""What the catalog's handlers call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.delegation import AccessDelegation
from lakebed.governance.delegation.vending import Vending
from lakebed.meta.seam import MetaStore
from lakebed.tables.bridges.service import Bridges
from lakebed.tables.bridges.syncing import Syncing
from lakebed.tables.committing import Commits
from lakebed.tables.creating import Creation
from lakebed.tables.data_access import DataAccess
from lakebed.tables.diagnostics.examination import Examination
from lakebed.tables.diagnostics.recovery import Recovery
from lakebed.tables.diagnostics.survey import Surveys
from lakebed.tables.dropping import Dropping
from lakebed.tables.entries import Entries
from lakebed.tables.federation.service import Federation
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.importing import Imports
from lakebed.tables.maintenance.jobs.service import MaintenanceJobs
from lakebed.tables.namespaces import Namespaces
from lakebed.tables.notifications import Notifications
from lakebed.tables.pointers import PointerMoves
from lakebed.tables.refs import References
from lakebed.tables.registering import Registration
from lakebed.tables.renaming import Renaming
from lakebed.tables.reports import Reports
from lakebed.tables.rollback import Rollback
from lakebed.tables.scanning import Scans
from lakebed.tables.views import Views
from lakebed.tables.warehouses import Warehouses
from lakebed.wire.aws.store_address import StoreAddress

DeletedKeys = Callable[[bytes], Sequence[str]]
"""Reads the keys in the body of an S3 DeleteObjects request. Raises InvalidInput."""


@dataclass(frozen=True, slots=True)
class TableExtensions:
    """The use cases behind the routes that table buckets add to the Iceberg specification."""

    refs: References
    pointers: PointerMoves
    rollback: Rollback
    imports: Imports
    examination: Examination
    recovery: Recovery
    surveys: Surveys
    bridges: Bridges
    syncing: Syncing


@dataclass(frozen=True, slots=True)
class IcebergServices:
    """The use cases behind the Iceberg routes."""

    meta: MetaStore
    clock: Clock
    warehouses: Warehouses
    namespaces: Namespaces
    entries: Entries
    creation: Creation
    commits: Commits
    registration: Registration
    views: Views
    dropping: Dropping
    renaming: Renaming
    notifications: Notifications
    reports: Reports
    scans: Scans
    keys: IdempotencyKeys
    data_access: DataAccess
    vending: Vending
    access_delegation: AccessDelegation
    store: StoreAddress
    deleted_keys: DeletedKeys
    extensions: TableExtensions
    maintenance: MaintenanceJobs
    federation: Federation
