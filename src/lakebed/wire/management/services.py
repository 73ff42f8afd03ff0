"""Services called by the handlers of the management API."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.management import CatalogManagement, ServerTableRemoval
from lakebed.catalog.external.federation.connections import CatalogConnections
from lakebed.catalog.external.federation.service import Federation
from lakebed.catalog.external.storage.profiles import StorageProfiles
from lakebed.core.access import Credential, ResourceRules, Securable
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.catalog_grants import CatalogGrants
from lakebed.governance.rbac.catalog_roles import CatalogRoles
from lakebed.governance.rbac.catalogs import Catalogs
from lakebed.governance.rbac.managed_principals import ManagedPrincipals
from lakebed.governance.rbac.principal_roles import PrincipalRoles
from lakebed.governance.tokens import ClientCredentialStore
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller


@dataclass(frozen=True, slots=True)
class ManagementServices:
    """Services behind the management API."""

    object_context: ObjectContext
    rules: ResourceRules
    """Principals, roles and grants belong to the root account, regardless of the account of a catalog's bucket."""
    principals: ManagedPrincipals
    principal_roles: PrincipalRoles
    catalog_roles: CatalogRoles
    catalog_grants: CatalogGrants
    catalogs: Catalogs
    catalog_management: CatalogManagement
    connections: CatalogConnections | None = None
    """None without federated catalogs."""
    storage_profiles: StorageProfiles | None = None
    """None without external storage."""

    @staticmethod
    def on(
        object_context: ObjectContext,
        root: Credential,
        issuer: ClientCredentialStore,
        remove_server_tables: ServerTableRemoval,
        federation: Federation | None = None,
        storage_profiles: StorageProfiles | None = None,
    ) -> ManagementServices:
        """Create the services. `remove_server_tables` empties catalogs before their deletion."""
        meta, outbox, clock = object_context.meta, object_context.outbox, object_context.clock
        return ManagementServices(
            object_context,
            ResourceRules(owner=root.principal.account),
            ManagedPrincipals(meta, outbox, clock, root, issuer),
            PrincipalRoles(meta, outbox, clock),
            CatalogRoles(meta, outbox, clock),
            CatalogGrants(meta, outbox, clock, None if federation is None else federation.grant_targets),
            Catalogs(meta),
            CatalogManagement(
                object_context, CatalogAuthorizer(object_context), remove_server_tables, storage_profiles
            ),
            None if federation is None else federation.connections,
            storage_profiles,
        )

    def administrator(self, caller: Caller) -> Administrator:
        """The caller as an administrator, with the authorization that the services require."""

        async def authorize(action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
            await self.object_context.authorize_resource(
                caller, self.rules, action, resource, securable=securable, privileges=privileges
            )

        return Administrator(caller.principal, authorize)
