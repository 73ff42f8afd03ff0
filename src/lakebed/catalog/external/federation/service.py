"""All use cases of catalogs that are backed by another, wired together."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http
from lakebed.objects.context import ObjectContext

from ..remote.client import TIMEOUT_SECONDS
from .asking import Asking
from .connections import PURPOSE, Connections
from .entries import RemoteEntries
from .namespaces import RemoteNamespaces
from .passing import Passing
from .recording import Recording
from .remotes import Remotes
from .tables import RemoteTables
from .views import RemoteViews


@dataclass(frozen=True, slots=True)
class Federation:
    """Catalogs behind this one, and what is in them."""

    connections: Connections
    namespaces: RemoteNamespaces
    entries: RemoteEntries
    tables: RemoteTables
    views: RemoteViews
    recording: Recording


def wire_federation(
    object_context: ObjectContext,
    authorizer: CatalogAuthorizer,
    catalogs: CatalogService,
    keys: IdempotencyKeys,
    master: MasterKeys,
    http: Http,
    hosts: AllowedHosts,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Federation:
    """The use cases on the services of the catalog. `http` is how other catalogs are spoken to."""
    remotes = Remotes(http, object_context.clock, hosts, timeout_seconds=timeout_seconds)
    connections = Connections(object_context, authorizer, catalogs, Vault(master, PURPOSE), remotes)
    asking = Asking(object_context.meta, authorizer)
    passing = Passing(object_context, keys)
    entries = RemoteEntries(object_context.meta, authorizer, asking, passing)
    return Federation(
        connections,
        RemoteNamespaces(object_context.meta, authorizer, passing),
        entries,
        RemoteTables(entries, asking, passing),
        RemoteViews(entries, asking, passing),
        Recording(object_context, connections, passing),
    )
