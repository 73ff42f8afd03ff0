"""Access delegation for the files of tables: allowed modes, and vended credentials as client settings."""

from __future__ import annotations

from lakebed.catalog.access.data_access import TableData
from lakebed.catalog.catalogs.service import access_delegation
from lakebed.catalog.identifiers import Identifier, path_of
from lakebed.catalog.model import Catalog
from lakebed.core.delegation import AccessDelegation
from lakebed.governance.credentials.sessions import TemporaryKey
from lakebed.governance.delegation.delegations import DelegationKind, DelegationPurpose
from lakebed.governance.delegation.vending import CredentialVending
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


def vend_for_table(
    vending: CredentialVending, request: JsonRequest, catalog: Catalog, identifier: Identifier, data: TableData
) -> TemporaryKey:
    """Vend credentials for the files of a table."""
    return vending.vend(
        request.caller.principal,
        access_purpose(request, DelegationKind.VENDED, catalog, identifier),
        table=data.table,
        bucket=data.bucket,
        directories=data.directories,
        writes=data.writes,
    )


def credential_settings(key: TemporaryKey, store: StoreAddress, http: Request) -> dict[str, str]:
    """A client's S3 settings: vended credentials and the endpoint."""
    return {
        "s3.access-key-id": key.access_key_id,
        "s3.secret-access-key": key.secret.reveal(),
        "s3.session-token": key.session_token.reveal(),
        "s3.session-token-expires-at-ms": str(key.session.expires_ms),
        **store.client_settings(http),
    }
