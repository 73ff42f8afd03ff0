"""Access delegation for a table's files: vended credentials, remote signing, or the client's own credentials.

The client lists what it supports in `X-Iceberg-Access-Delegation`; the catalog may grant any of it, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from lakebed.catalog.access.data_access import TableData
from lakebed.catalog.identifiers import SEPARATOR, Identifier
from lakebed.catalog.model import Catalog, Entry
from lakebed.core.delegation import AccessDelegation
from lakebed.core.errors import AccessDenied
from lakebed.governance.delegation.delegations import DelegationKind
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.table_access import access_purpose, allowed_delegation, credential_settings

from .services import IcebergServices
from .unregistered_table_hint import UnregisteredTableHint

HEADER: Final = "x-iceberg-access-delegation"

ANY_TABLE_SIGNING: Final = "v1/aws/s3/sign"
"""The path that signs requests for the files of any table, relative to the catalog's URI.

It is the specification's first endpoint for signing: older clients know no other.
"""


_SCOPE_PREFIX: Final = "lakebed.credential-scope-prefix"


class AccessMode(StrEnum):
    """Kinds of access delegation, the preferred first."""

    VENDED = "vended-credentials"
    SIGNING = "remote-signing"


@dataclass(frozen=True, slots=True)
class TableAccess:
    """The access part of a response with a table."""

    config: dict[str, str] = field(repr=False)
    credentials: list[dict[str, Any]] = field(default_factory=list, repr=False)
    revalidate_after_ms: int | None = None
    """When a client's cached response is no longer valid, because its credentials expire soon."""
    has_secrets: bool = True
    """Whether `credentials` holds credentials; otherwise it only says where the files are."""


@dataclass(frozen=True, slots=True)
class VendedCredentials:
    """Vended credentials for a table's files, as clients read them."""

    facts: dict[str, str]
    """Their description, without secrets."""
    settings: dict[str, str] = field(repr=False)
    """The same with the credentials, and how to use and renew them."""
    storage_credential: dict[str, Any] = field(repr=False)
    """The one entry of `storage-credentials`."""
    issued_ms: int
    expires_ms: int


def requested_mode(header: str | None, allowed: AccessDelegation = AccessDelegation.VENDED) -> AccessMode | None:
    """The preferred mode that the client requests and that is allowed; None without one.

    A lone `true` is how early clients requested credentials.
    """
    asked = {word.strip().lower() for word in (header or "").split(",")}
    if asked == {"true"}:
        asked = {str(AccessMode.VENDED)}
    is_allowed = {AccessMode.VENDED: allowed.vends, AccessMode.SIGNING: allowed.signs}
    return next((mode for mode in AccessMode if mode in asked and is_allowed[mode]), None)


async def delegate_access(
    services: IcebergServices,
    request: JsonRequest,
    catalog: Catalog,
    identifier: Identifier,
    location: str,
    properties: Callable[[], Mapping[str, str]],
    *,
    entry: Entry | None = None,
    entry_id: str = "",
) -> TableAccess:
    """A client's access to the files of a table, or of one that is staged under `entry_id`.

    `properties` is called only if needed, because it may parse the table's metadata.
    Raises AccessDenied when the client asks for access and the caller may not even read; LocationConflict when a staged
    table's directories are not free. Where credentials are not vended, every client is told where the files are.
    """
    config = services.store.client_settings(request.http)
    header, allowed = request.http.headers.get(HEADER), allowed_delegation(services.access_delegation, catalog)
    if not allowed.vends:
        config |= scope_facts(f"{location.rstrip('/')}/", vends=False)
    mode = requested_mode(header, allowed)
    if mode is None:
        if requested_mode(header) is None:
            return TableAccess(config, has_secrets=allowed.vends)
        return TableAccess(config, [{"prefix": config[_SCOPE_PREFIX], "config": config}], has_secrets=False)
    try:
        if entry is not None:
            data = await services.data_access.of_entry(request.caller, catalog, identifier.namespace, entry)
        else:
            data = await services.data_access.of_staged(
                request.caller, catalog, identifier, entry_id, location, properties()
            )
    except AccessDenied:
        if entry is not None and request.http.method == "POST":
            # This request has created the table: an error would say that it did not.
            return TableAccess(config)
        raise
    # Not every client uses remote signing for a staged table, so it gets vended credentials where they are allowed.
    if mode is AccessMode.SIGNING and (entry is not None or not allowed.vends):
        where = UnregisteredTableHint(data.table, location, properties())
        return TableAccess(config | _signing_settings(request, catalog, identifier, where))
    unrecorded = None if entry is not None else UnregisteredTableHint(data.table, location, properties())
    vended = vend_credentials(services, request, catalog, identifier, data, unrecorded)
    return TableAccess(
        config | vended.settings,
        [vended.storage_credential],
        vended.issued_ms + (vended.expires_ms - vended.issued_ms) // 2,
    )


def vend_credentials(
    services: IcebergServices,
    request: JsonRequest,
    catalog: Catalog,
    identifier: Identifier,
    data: TableData,
    unrecorded: UnregisteredTableHint | None = None,
) -> VendedCredentials:
    """Vended credentials for a table's files; `unrecorded` lets the client renew those of a table without an entry.

    There is one entry, for the table's location, even if the credentials cover further directories: clients that renew
    credentials insist on exactly one. The other directories use the same credentials from the table's settings.
    """
    key = services.vending.vend(
        request.caller.principal,
        access_purpose(request, DelegationKind.VENDED, catalog, identifier),
        table=data.table,
        bucket=data.bucket,
        directories=data.directories,
        writes=data.writes,
    )
    expires_ms = key.session.expires_ms
    prefix = f"s3://{data.bucket}/{data.home.directory}"
    facts = scope_facts(prefix, vends=True) | {
        "lakebed.credential-mode": "catalog-vended-temporary-credentials",
        "lakebed.credential-expiration-unix-seconds": str(expires_ms // 1000),
    }
    settings = {
        **credential_settings(key, services.store, request.http),
        "client.refresh-credentials-endpoint": table_path(catalog, identifier, "credentials")
        + ("" if unrecorded is None else unrecorded.query),
        "client.refresh-credentials-enabled": "true",
        **facts,
    }
    return VendedCredentials(facts, settings, {"prefix": prefix, "config": settings}, key.session.issued_ms, expires_ms)


def scope_facts(prefix: str, *, vends: bool) -> dict[str, str]:
    """Where a table's files are, and whether credentials to them are vended."""
    return {
        "lakebed.credential-vending": "supported" if vends else "disabled",
        "lakebed.credential-scope": "table-prefix",
        _SCOPE_PREFIX: prefix,
    }


def vend_copy_credentials(
    services: IcebergServices, request: JsonRequest, catalog: Catalog, copy: Entry
) -> dict[str, Any]:  # Any: JSON
    """Vended credentials for the restricted copy of a plan, as an entry of `storage-credentials`.

    They are not renewed: a plan that outlives them has to be requested again.
    """
    data = services.data_access.of_copy(copy)
    key = services.vending.vend(
        request.caller.principal,
        access_purpose(request, DelegationKind.VENDED, catalog, request.table),
        table=data.table,
        bucket=data.bucket,
        directories=data.directories,
        writes=False,
    )
    return {
        "prefix": f"s3://{data.bucket}/{data.home.directory}",
        "config": credential_settings(key, services.store, request.http),
    }


def table_path(catalog: Catalog, identifier: Identifier, operation: str) -> str:
    """The path of an operation on a table, relative to the catalog's URI."""
    namespace = quote(SEPARATOR.join(identifier.namespace), safe="")
    table = quote(identifier.name, safe="")
    return f"v1/{quote(catalog.name, safe='')}/namespaces/{namespace}/tables/{table}/{operation}"


def _signing_settings(
    request: JsonRequest, catalog: Catalog, identifier: Identifier, where: UnregisteredTableHint
) -> dict[str, str]:
    """The signing endpoint, under the setting names of all client versions."""
    host = request.http.headers.get("host", "")
    uri, endpoint = f"{request.http.scheme}://{host}{request.mount}", table_path(catalog, identifier, "sign")
    return {
        "s3.remote-signing-enabled": "true",
        "signer.uri": uri,
        # Engines that purge a table drop it first, and have the deletion of its files signed afterwards.
        "signer.endpoint": endpoint + where.query,
        # No `s3.signer.endpoint`: Java clients would prefer it. PyIceberg knows only that name, and has one signer for
        # all open tables, so it uses the endpoint that signs for any table.
        "s3.signer.uri": uri,
        # PyIceberg supports remote signing with one of its two file systems, and needs the name of the signer.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
