"""What the handlers of policies and generic tables call."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.delegation import AccessDelegation
from lakebed.governance.delegation.vending import Vending
from lakebed.meta.seam import MetaStore
from lakebed.tables.data_access import DataAccess
from lakebed.tables.dropping import Dropping
from lakebed.tables.entries import Entries
from lakebed.tables.federation.service import Federation
from lakebed.tables.generic_tables import GenericTables
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.policies.attachments import PolicyAttachments
from lakebed.tables.policies.policies import Policies
from lakebed.tables.policies.policy_types import PolicyTypes
from lakebed.tables.policies.policy_versions import PolicyVersions
from lakebed.wire.aws.store_address import StoreAddress


@dataclass(frozen=True, slots=True)
class PolarisServices:
    """The use cases behind the Polaris routes."""

    meta: MetaStore
    clock: Clock
    entries: Entries
    dropping: Dropping
    keys: IdempotencyKeys
    data_access: DataAccess
    vending: Vending
    access_delegation: AccessDelegation
    store: StoreAddress
    region: str
    policies: Policies
    policy_types: PolicyTypes
    attaching: PolicyAttachments
    policy_versions: PolicyVersions
    generic_tables: GenericTables
    federation: Federation
