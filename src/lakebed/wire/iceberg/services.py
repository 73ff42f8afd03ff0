"""What the catalog's handlers call."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.delegation import AccessDelegation
from lakebed.governance.vending import Vending
from lakebed.meta.seam import MetaStore
from lakebed.tables.committing import Commits
from lakebed.tables.creating import Creation
from lakebed.tables.data_access import DataAccess
from lakebed.tables.dropping import Dropping
from lakebed.tables.entries import Entries
from lakebed.tables.federation.service import Federation
from lakebed.tables.generic_tables import GenericTables
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.labels.service import Labelling
from lakebed.tables.maintenance.jobs.service import MaintenanceJobs
from lakebed.tables.namespaces import Namespaces
from lakebed.tables.notifications import Notifications
from lakebed.tables.policies.attachments import PolicyAttachments
from lakebed.tables.policies.coverage import PolicyCoverage
from lakebed.tables.policies.policies import Policies
from lakebed.tables.policies.policy_types import PolicyTypes
from lakebed.tables.policies.policy_versions import PolicyVersions
from lakebed.tables.registering import Registration
from lakebed.tables.renaming import Renaming
from lakebed.tables.reports import Reports
from lakebed.tables.scanning import Scans
from lakebed.tables.views import Views
from lakebed.tables.warehouses import Warehouses
from lakebed.wire.admin.services import AdminServices
from lakebed.wire.oauth.bearer import RequestAuthenticator

from .extensions import TableExtensions
from .store_address import StoreAddress


@dataclass(frozen=True, slots=True)
class CatalogServices:
    """The catalog's use cases, and who establishes who asks."""

    authenticator: RequestAuthenticator
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
    region: str
    extensions: TableExtensions
    maintenance: MaintenanceJobs
    policies: Policies
    policy_types: PolicyTypes
    attaching: PolicyAttachments
    policy_versions: PolicyVersions
    coverage: PolicyCoverage
    generic_tables: GenericTables
    labelling: Labelling
    federation: Federation
    admin: AdminServices
