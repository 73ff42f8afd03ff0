"""The services of a server in one process, without HTTP: a catalog, its roles and its tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.pipeline import planning
from benchmarks.pipeline.planning import LAKE, ROOT
from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.commits.metadata_cache import MetadataCache
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.tables.creation import Creation
from lakebed.core.access import Credential, Securable
from lakebed.core.clock import SystemClock
from lakebed.core.settings import ServerSettings, Settings
from lakebed.governance.credentials.access_keys import AccessKeys
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.principals import Principals
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.catalog_grants import CatalogGrants
from lakebed.governance.rbac.catalog_roles import CatalogRoles
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.principal_roles import PrincipalRoles
from lakebed.governance.rbac.privileges import Privilege
from lakebed.governance.rbac.rows import INVALIDATE_GRANTS
from lakebed.governance.tokens import (
    ClientAuthenticator,
    ClientCredentialStore,
    LoginThrottle,
    SecretHasher,
    TokenIssuer,
    TokenSigningKeys,
    TokenVerifier,
)
from lakebed.meta.seam import Transaction
from lakebed.objects.buckets.service import BucketService
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller
from lakebed.server.composition import build_foundation
from lakebed.server.stores.identity import establish_identity, root_credential
from lakebed.server.stores.metadata import open_metadata
from lakebed.server.stores.object_store import confirm_object_store, open_storage

DURABILITY: Final = "grants and policies: fdatasync of the metadata log, which holds them and their events"


async def _allow(action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
    """Authorize every set-up operation."""


ADMINISTRATOR: Final = Administrator(ROOT.principal, _allow)


@dataclass(frozen=True)
class Site:
    """The measured services, and those that create their data."""

    object_context: ObjectContext
    catalog: planning.Site
    authorizer: CatalogAuthorizer
    access_keys: AccessKeys
    clients: ClientAuthenticator
    credentials: ClientCredentialStore
    issuer: TokenIssuer
    verifier: TokenVerifier
    principals: Principals
    principal_roles: PrincipalRoles
    catalog_roles: CatalogRoles
    granting: CatalogGrants
    creation: Creation

    async def holder(self, name: str, *grants: tuple[GrantTarget, Privilege]) -> str:
        """Create a user with one role that has these privileges; return the id of its access key."""
        by = ADMINISTRATOR
        await self.principals.create_user(name)
        await self.principal_roles.create(by, name, properties={})
        await self.catalog_roles.create(by, LAKE, name, properties={})
        await self.catalog_roles.assign(by, name, LAKE, name)
        await self.principal_roles.assign(by, name, name)
        for target, privilege in grants:
            await self.granting.add(by, LAKE, name, target, privilege)
        return (await self.access_keys.create(name)).key.id

    async def caller(self, key_id: str) -> Caller:
        """Look up the caller of an access key, as a request handler does."""
        return Caller((await self.access_keys.lookup(key_id)).principal, request_id="R", source_ip="127.0.0.1")

    async def change_roles(self) -> None:
        """Invalidate compiled grants, as every change of roles and grants does."""

        async def work(tx: Transaction) -> None:
            await tx.run(INVALIDATE_GRANTS)

        await self.object_context.meta.transact(work)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Site]:
    """Open a site with an empty catalog."""
    settings = Settings(server=ServerSettings(data=folder))
    identity, clock = establish_identity(settings), SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    meta = await open_metadata(settings, master)
    storage, open_writer = await open_storage(settings, clock)
    ownership = await confirm_object_store(settings, meta, storage)
    object_context = build_foundation(
        settings, identity, master, clock, meta, storage, ownership, open_writer
    ).object_context
    try:
        catalog = planning.wire(object_context)
        await BucketService(object_context).create(ROOT, LAKE)
        await catalog.catalogs.enable(ROOT, LAKE)
        yield _wire(settings, object_context, catalog, master, root_credential(identity))
    finally:
        object_context.ingester.close()
        await storage.close()
        await meta.close()


def _wire(
    settings: Settings, object_context: ObjectContext, catalog: planning.Site, master: MasterKeys, root: Credential
) -> Site:
    meta, outbox, clock = object_context.meta, object_context.outbox, object_context.clock
    authorizer, keys = CatalogAuthorizer(object_context), AccessKeys(meta, outbox, master, clock, root)
    hasher, token_settings = SecretHasher(), settings.tokens
    verifier = TokenVerifier(meta, keys, master, clock, issuer=token_settings.issuer)
    issuer = TokenIssuer(
        TokenSigningKeys(meta, outbox, master, clock, root.principal),
        verifier,
        clock,
        issuer=token_settings.issuer,
        lifetime_seconds=int(token_settings.lifetime),
        renewal_seconds=int(token_settings.renewal),
    )
    return Site(
        object_context,
        catalog,
        authorizer,
        keys,
        ClientAuthenticator(meta, keys, hasher, LoginThrottle(clock), master),
        ClientCredentialStore(meta, outbox, hasher, clock, root.principal, root.access_key_id),
        issuer,
        verifier,
        Principals(meta, outbox, clock, root.principal),
        PrincipalRoles(meta, outbox, clock),
        CatalogRoles(meta, outbox, clock),
        CatalogGrants(meta, outbox, clock),
        Creation(
            object_context,
            catalog.entries,
            catalog.files,
            catalog.publisher,
            MetadataCache(),
            catalog.claims,
        ),
    )


async def make_namespaces(site: Site, *levels: str) -> None:
    """Create a namespace and its parents."""
    await site.catalog.namespaces.create(Mutation(ROOT), LAKE, levels, {})
