"""The use cases of federated catalogs, wired together."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.objects.context import ObjectContext

from ..remote.client import RemoteCatalogs
from .authorization import FederatedAuthorization
from .connections import VAULT_PURPOSE, CatalogConnections
from .entries import FederatedEntries
from .forwarding import Forwarder
from .grant_targets import FederatedGrantTargets
from .namespaces import FederatedNamespaces
from .tables import FederatedTables
from .views import FederatedViews


@dataclass(frozen=True, slots=True)
class Federation:
    """The use cases of federated catalogs."""

    connections: CatalogConnections
    namespaces: FederatedNamespaces
    entries: FederatedEntries
    tables: FederatedTables
    views: FederatedViews
    grant_targets: FederatedGrantTargets


def wire_federation(
    object_context: ObjectContext,
    authorizer: CatalogAuthorizer,
    catalogs: CatalogService,
    keys: IdempotencyKeys,
    master: MasterKeys,
    remotes: RemoteCatalogs,
) -> Federation:
    """Create the use cases on the services of the catalog."""
    connections = CatalogConnections(object_context, authorizer, catalogs, Vault(master, VAULT_PURPOSE), remotes)
    authorization = FederatedAuthorization(object_context.meta, authorizer)
    forwarder = Forwarder(object_context, keys)
    entries = FederatedEntries(object_context.meta, authorizer, authorization, forwarder)
    return Federation(
        connections,
        FederatedNamespaces(object_context.meta, authorizer, forwarder),
        entries,
        FederatedTables(entries, authorization, forwarder),
        FederatedViews(entries, authorization, forwarder),
        FederatedGrantTargets(object_context, connections, forwarder),
    )
