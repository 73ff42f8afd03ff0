"""Access delegation for the files of tables: allowed modes, and vended credentials as client settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.catalog.access.data_access import TableData
from lakebed.catalog.catalogs.service import access_delegation
from lakebed.catalog.external.storage.profiles import StorageProfiles
from lakebed.catalog.external.storage.vending import ExternalVending
from lakebed.catalog.identifiers import Identifier, path_of
from lakebed.catalog.model import Catalog
from lakebed.core.delegation import AccessDelegation
from lakebed.core.secrets import Secret
from lakebed.governance.delegation.delegations import DelegationKind, DelegationPurpose
from lakebed.governance.delegation.vending import CredentialVending
from lakebed.storage.credentials import Credentials
from lakebed.wire.aws.store_address import StoreAddress
from lakebed.wire.http.message import Request

from .request import JsonRequest


def allowed_delegation(of_server: AccessDelegation, catalog: Catalog) -> AccessDelegation:
    """The access delegation that the settings of the server and of the catalog allow."""
    return of_server.narrowed(access_delegation(catalog))


def access_purpose(
    request: JsonRequest,
    kind: DelegationKind,
    catalog: Catalog,
    identifier: Identifier,
    *,
    method: str = "",
    target: str = "",
) -> DelegationPurpose:
    """The purpose of vended credentials or of a signed request, for the audit log."""
    caller = request.caller
    return DelegationPurpose(
        kind,
        caller.request_id,
        caller.source_ip,
        catalog.name,
        path_of(identifier.namespace),
        identifier.name,
        method,
        target,
    )


@dataclass(frozen=True, slots=True)
class VendedKey:
    """Vended credentials, as settings of clients."""

    settings: dict[str, str] = field(repr=False)
    """The credentials and the endpoint of the store."""
    issued_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class TableAccess:
    """Delegates access to the files of tables, in buckets of this server or in external storage."""

    vending: CredentialVending
    of_server: AccessDelegation
    """The access delegation that the settings of the server allow."""
    store: StoreAddress
    profiles: StorageProfiles
    external: ExternalVending

    async def allowed(self, catalog: Catalog) -> AccessDelegation:
        """The access delegation that the server, the catalog and its object store make possible."""
        allowed = allowed_delegation(self.of_server, catalog)
        if catalog.storage_revision is None:
            return allowed
        return allowed.narrowed(await self.external.capability(catalog))

    async def store_settings(self, http: Request, catalog: Catalog) -> dict[str, str]:
        """A client's settings for the catalog's object store, without credentials."""
        if catalog.storage_revision is None:
            return self.store.client_settings(http)
        profile = (await self.profiles.of(catalog)).profile
        endpoint = {"s3.endpoint": profile.endpoint} if profile.endpoint else {}
        return endpoint | {
            "s3.path-style-access": "true" if profile.uses_path_style else "false",
            "client.region": profile.region or self.store.region,
        }

    async def vend(self, request: JsonRequest, catalog: Catalog, identifier: Identifier, data: TableData) -> VendedKey:
        """Vend credentials for the files of a table. Raises Throttled, Unavailable, NotSupported."""
        principal = request.caller.principal
        purpose = access_purpose(request, DelegationKind.VENDED, catalog, identifier)
        settings = await self.store_settings(request.http, catalog)
        if catalog.storage_revision is None:
            key = self.vending.vend(
                principal,
                purpose,
                table=data.table,
                bucket=data.bucket,
                directories=data.directories,
                writes=data.writes,
            )
            secrets = (key.access_key_id, key.secret, key.session_token)
            issued_ms, expires_ms = key.session.issued_ms, key.session.expires_ms
        else:
            found, issued_ms, expires_ms = await self.external.vend(
                principal, purpose, catalog, table=data.table, directories=data.directories, writes=data.writes
            )
            secrets = (found.access_key_id, found.secret_access_key, found.session_token or Secret(""))
        return VendedKey(_credential_settings(*secrets, expires_ms) | settings, issued_ms, expires_ms)

    async def signing_keys(
        self, request: JsonRequest, catalog: Catalog, purpose: DelegationPurpose, data: TableData, *, writes: bool
    ) -> Credentials:
        """Credentials to sign one request with, which was checked. In a bucket of this server they allow no more."""
        principal = request.caller.principal
        if catalog.storage_revision is not None:
            return await self.external.signer(
                principal, purpose, catalog, table=data.table, directories=data.directories, writes=writes
            )
        key = self.vending.vend(
            principal, purpose, table=data.table, bucket=data.bucket, directories=data.directories, writes=writes
        )
        return Credentials(key.access_key_id, key.secret, key.session_token)


def _credential_settings(access_key_id: str, secret: Secret, session_token: Secret, expires_ms: int) -> dict[str, str]:
    return {
        "s3.access-key-id": access_key_id,
        "s3.secret-access-key": secret.reveal(),
        "s3.session-token": session_token.reveal(),
        "s3.session-token-expires-at-ms": str(expires_ms),
    }
