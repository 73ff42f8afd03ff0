"""Authorizes requests for federated catalogs on this server, before they are forwarded."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer, Privileges
from lakebed.core.errors import AccessDenied
from lakebed.governance.rbac import GrantKind, entry_securable
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller

from .model import CredentialRecipients, FederatedCatalog, FederatedEntry
from .synthetic_entities import find_synthetic_entry

_UNKNOWN_ID: Final = "remote"
"""The table id in the resources of policies, for tables without a synthetic entity: patterns match it as any other."""


class DataPermission(IntEnum):
    """A caller's permission for the data of a table."""

    NONE = 0
    READ = 1
    WRITE = 2


class FederatedAuthorization:
    """Authorizes operations on tables and views in federated catalogs."""

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer) -> None:
        self._meta = meta
        self._authorizer = authorizer

    async def check(
        self, caller: Caller, entry: FederatedEntry, action: Action, *, privileges: Privileges | None = None
    ) -> None:
        """Return if the caller may do `action` to a table or view, or with its name. Raises AccessDenied."""
        catalog, identifier, kind = entry.catalog, entry.identifier, entry.kind
        creates = action is Action.CREATE_TABLE
        entity = None if creates else await find_synthetic_entry(self._meta, catalog.id, identifier, kind)
        await self._authorizer.check(
            caller,
            catalog.entity,
            action,
            namespace=identifier.namespace,
            name=identifier.name,
            entry_id="" if creates else entity or _UNKNOWN_ID,
            kind=GrantKind(kind),
            privileges=privileges,
            securable=None if entity is None else entry_securable(catalog.id, identifier.namespace, entity),
        )

    async def data_permission(self, caller: Caller, table: FederatedEntry) -> DataPermission:
        """The caller's permission for a table's data."""
        for action, permission in (
            (Action.PUT_TABLE_DATA, DataPermission.WRITE),
            (Action.GET_TABLE_DATA, DataPermission.READ),
        ):
            try:
                await self.check(caller, table, action)
            except AccessDenied:
                continue
            return permission
        return DataPermission.NONE

    async def require_data_permission(self, caller: Caller, table: FederatedEntry) -> DataPermission:
        """The same, at least READ. Raises AccessDenied."""
        permission = await self.data_permission(caller, table)
        if permission is DataPermission.NONE:
            await self.check(caller, table, Action.GET_TABLE_DATA)
        return permission


def receives_credentials(catalog: FederatedCatalog, permission: DataPermission) -> bool:
    """Whether a caller with this permission receives credentials vended by the external catalog. Pure."""
    needed = {CredentialRecipients.WRITERS: DataPermission.WRITE, CredentialRecipients.READERS: DataPermission.READ}
    minimum = needed.get(catalog.connection.config.credentials_for)
    return minimum is not None and permission >= minimum
