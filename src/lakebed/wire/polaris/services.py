"""Services called by the handlers of policies and generic tables."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.entries import Entries
from lakebed.catalog.external.federation.service import Federation
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.catalog.policies.attachments import PolicyAttachments
from lakebed.catalog.policies.policies import PolicyManagement
from lakebed.catalog.policies.policy_types import PolicyTypes
from lakebed.catalog.policies.policy_versions import PolicyVersions
from lakebed.catalog.tables.drops import Dropping
from lakebed.catalog.tables.generic_tables import GenericTables
from lakebed.core.clock import Clock
from lakebed.meta.seam import MetaStore
from lakebed.wire.json.table_access import TableAccess


@dataclass(frozen=True, slots=True)
class PolarisServices:
    """Services behind the Polaris routes."""

    meta: MetaStore
    clock: Clock
    entries: Entries
    dropping: Dropping
    keys: IdempotencyKeys
    data_access: DataAccess
    access: TableAccess
    region: str
    policies: PolicyManagement
    policy_types: PolicyTypes
    attachments: PolicyAttachments
    policy_versions: PolicyVersions
    generic_tables: GenericTables
    federation: Federation
