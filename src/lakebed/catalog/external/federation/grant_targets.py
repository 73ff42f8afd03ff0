"""Prepares grants on names in federated catalogs: creates the synthetic entities that carry them.

The name is looked up in the external catalog first: a grant on a missing name would apply to whatever gets it later.
"""

from __future__ import annotations

from functools import partial

from lakebed.catalog.identifiers import check_identifier, check_namespace
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import NotFound
from lakebed.governance.rbac import GrantKind
from lakebed.governance.rbac.model import GrantTarget, ManagedCatalog
from lakebed.objects.context import ObjectContext

from ..remote.client import RemoteRequest
from .connections import CatalogConnections
from .forwarding import Forwarder
from .model import FederatedEntry
from .namespaces import NAMESPACE_STATUS
from .synthetic_entities import ensure_synthetic_entry, ensure_synthetic_namespace


class FederatedGrantTargets:
    """Implements `governance.rbac.catalog_grants.ExternalEntryRecorder`."""

    def __init__(self, object_context: ObjectContext, connections: CatalogConnections, forwarder: Forwarder) -> None:
        self._f = object_context
        self._connections = connections
        self._forwarder = forwarder

    async def record(self, catalog: ManagedCatalog, target: GrantTarget) -> bool:
        """Create the synthetic entity of a grant's target; False if the target is not in a federated catalog.

        Raises NotFound if it does not exist there, and the external catalog's other errors.
        """
        if target.kind not in (GrantKind.NAMESPACE, GrantKind.TABLE, GrantKind.VIEW):
            return False
        federated = await self._connections.find(catalog.name)
        if federated is None:
            return False
        now_ms = self._f.clock.now_ms()
        if target.kind is GrantKind.NAMESPACE:
            levels = check_namespace(target.namespace)
            request = RemoteRequest("GET", ("namespaces", await federated.remote.namespace(levels)))
            response = await self._forwarder.read(federated, request, NAMESPACE_STATUS)
            if response.status != 200:
                raise NotFound(f"no such namespace: {'.'.join(levels)}")
            await self._f.meta.transact(
                partial(ensure_synthetic_namespace, catalog=federated.id, levels=levels, now_ms=now_ms)
            )
        else:
            identifier = check_identifier(target.namespace, target.name)
            entry = FederatedEntry(federated, identifier, EntryKind(target.kind))
            await self._forwarder.read(federated, RemoteRequest("GET", await entry.path()), entry.status_mapping)
            await self._f.meta.transact(
                partial(
                    ensure_synthetic_entry, catalog=federated.id, identifier=identifier, kind=entry.kind, now_ms=now_ms
                )
            )
        return True
