"""Makes things of the catalog behind this one known here, when something is to be granted on them.

They are looked for there first: a grant on what is not there would wait for whoever makes something of that name.
"""

from __future__ import annotations

from lakebed.catalog.identifiers import Levels, check_identifier, check_namespace
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import NotFound
from lakebed.governance.rbac import GrantKind
from lakebed.governance.rbac.model import GrantTarget, ManagedCatalog
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext

from ..remote.client import RemoteRequest
from .connections import Backed, Connections
from .entries import missing
from .facades import record_entry, record_namespace
from .namespaces import MISSING
from .passing import Passing


class Recording:
    """Implements `governance.rbac.granting.Elsewhere`."""

    def __init__(self, object_context: ObjectContext, connections: Connections, passing: Passing) -> None:
        self._f = object_context
        self._connections = connections
        self._passing = passing

    async def record(self, catalog: ManagedCatalog, target: GrantTarget) -> bool:
        """Make known what a grant is to be on; False if it is nothing of a catalog behind this one.

        Raises NotFound if it is not there either, and what else the other side refuses with.
        """
        if target.kind not in (GrantKind.NAMESPACE, GrantKind.TABLE, GrantKind.VIEW):
            return False
        backed = await self._connections.backed(catalog.name)
        if backed is None:
            return False
        if target.kind is GrantKind.NAMESPACE:
            levels = check_namespace(target.namespace)
            await self._find_namespace(backed, levels)

            async def work(tx: Transaction) -> None:
                await record_namespace(tx, backed.catalog_id, levels, now_ms)
        else:
            kind, identifier = EntryKind(target.kind), check_identifier(target.namespace, target.name)
            namespace = await backed.remote.namespace(identifier.namespace)
            path = ("namespaces", namespace, f"{kind}s", identifier.name)
            await self._passing.read(backed, RemoteRequest("GET", path), missing(kind))

            async def work(tx: Transaction) -> None:
                await record_entry(tx, backed.catalog_id, identifier, kind, now_ms)

        now_ms = self._f.clock.now_ms()
        await self._f.meta.transact(work)
        return True

    async def _find_namespace(self, backed: Backed, levels: Levels) -> None:
        path = ("namespaces", await backed.remote.namespace(levels))
        answer = await self._passing.read(backed, RemoteRequest("GET", path), MISSING)
        if answer.status != 200:
            raise NotFound(f"no such namespace: {'.'.join(levels)}")
