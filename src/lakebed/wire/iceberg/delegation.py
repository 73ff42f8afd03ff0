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
from lakebed.wire.json.request import JsonRequest

from .services import IcebergServices
from .unregistered_table_hint import UnregisteredTableHint

HEADER: Final = "x-iceberg-access-delegation"

ANY_TABLE_SIGNING: Final = "v1/aws/s3/sign"
"""The path that signs requests for the files of any table, relative to the catalog's URI.

It is the first signing endpoint of the specification, and the only one that older clients know.
"""

_SCOPE_PREFIX: Final = "lakebed.credential-scope-prefix"


class AccessMode(StrEnum):
    """Kinds of access delegation, the preferred first."""

    VENDED = "vended-credentials"
    SIGNING = "remote-signing"


@dataclass(frozen=True, slots=True)
class GrantedAccess:
    """The access to files in a response with a table."""

    config: dict[str, str] = field(repr=False)
    credentials: list[dict[str, Any]] = field(default_factory=list, repr=False)
    revalidate_after_ms: int | None = None
    """When a client's cached response is no longer valid, because its credentials expire soon."""
    has_secrets: bool = True
    """Whether `credentials` contains credentials; otherwise it only has the location of the files."""


@dataclass(frozen=True, slots=True)
class VendedCredentials:
    """Vended credentials for a table's files, in the settings of clients."""

    description: dict[str, str]
    """Scope and expiry, without secrets."""
    settings: dict[str, str] = field(repr=False)
    """The description with the credentials, and settings for their use and refresh."""
    storage_credential: dict[str, Any] = field(repr=False)
    """The one entry of `storage-credentials`."""
    issued_ms: int
    expires_ms: int


def requested_mode(header: str | None, allowed: AccessDelegation = AccessDelegation.VENDED) -> AccessMode | None:
    """The preferred of the requested and allowed modes; None without one.

    Early clients send `true` to request credentials.
    """
    requested = {word.strip().lower() for word in (header or "").split(",")}
    if requested == {"true"}:
        requested = {str(AccessMode.VENDED)}
    is_allowed = {AccessMode.VENDED: allowed.vends, AccessMode.SIGNING: allowed.signs}
    return next((mode for mode in AccessMode if mode in requested and is_allowed[mode]), None)


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
) -> GrantedAccess:
    """A client's access to the files of a table, or of a table staged under `entry_id`.

    `properties` is called only if needed, because it may parse the table's metadata. If credentials are not vended, the
    response has the location of the files for every client.

    Raises AccessDenied if the client requests access and the caller cannot read the table; LocationConflict if a staged
    table's directories are taken.
    """
    config = await services.access.store_settings(request.http, catalog)
    header, allowed = request.http.headers.get(HEADER), await services.access.allowed(catalog)
    if not allowed.vends:
        config |= scope_settings(f"{location.rstrip('/')}/", vends=False)
    mode = requested_mode(header, allowed)
    if mode is None and not allowed.vends and catalog.storage_revision is not None and requested_mode(header):
        # The external store has no STS. Clients that can only use credentials would fail in any case.
        mode = AccessMode.SIGNING if allowed.signs else None
    if mode is None:
        if requested_mode(header) is None:
            return GrantedAccess(config, has_secrets=allowed.vends)
        return GrantedAccess(config, [{"prefix": config[_SCOPE_PREFIX], "config": config}], has_secrets=False)
    try:
        if entry is not None:
            data = await services.data_access.of_entry(request.caller, catalog, identifier.namespace, entry)
        else:
            data = await services.data_access.of_staged(
                request.caller, catalog, identifier, entry_id, location, properties()
            )
    except AccessDenied:
        if entry is not None and request.http.method == "POST":
            # This request has created the table, so it must not fail.
            return GrantedAccess(config)
        raise
    # Some clients do not use remote signing for staged tables, so these get vended credentials if allowed.
    if mode is AccessMode.SIGNING and (entry is not None or not allowed.vends):
        hint = UnregisteredTableHint(data.table, location, properties())
        return GrantedAccess(config | _signing_settings(request, catalog, identifier, hint))
    refresh_hint = None if entry is not None else UnregisteredTableHint(data.table, location, properties())
    vended = await vend_credentials(services, request, catalog, identifier, data, refresh_hint)
    return GrantedAccess(
        config | vended.settings,
        [vended.storage_credential],
        vended.issued_ms + (vended.expires_ms - vended.issued_ms) // 2,
    )


async def vend_credentials(
    services: IcebergServices,
    request: JsonRequest,
    catalog: Catalog,
    identifier: Identifier,
    data: TableData,
    hint: UnregisteredTableHint | None = None,
) -> VendedCredentials:
    """Vended credentials for a table's files; `hint` lets the client refresh those of a table without an entry.

    There is one entry, for the table's location, even if the credentials cover further directories: clients that
    refresh credentials require exactly one. They get the credentials for other directories from the table's settings.
    """
    key = await services.access.vend(request, catalog, identifier, data)
    prefix = f"s3://{data.bucket}/{data.location.directory}"
    description = scope_settings(prefix, vends=True) | {
        "lakebed.credential-mode": "catalog-vended-temporary-credentials",
        "lakebed.credential-expiration-unix-seconds": str(key.expires_ms // 1000),
    }
    settings = {
        **key.settings,
        "client.refresh-credentials-endpoint": table_path(catalog, identifier, "credentials")
        + ("" if hint is None else hint.query),
        "client.refresh-credentials-enabled": "true",
        **description,
    }
    storage_credential = {"prefix": prefix, "config": settings}
    return VendedCredentials(description, settings, storage_credential, key.issued_ms, key.expires_ms)


def scope_settings(prefix: str, *, vends: bool) -> dict[str, str]:
    """Settings with the location of a table's files, and whether credentials are vended."""
    return {
        "lakebed.credential-vending": "supported" if vends else "disabled",
        "lakebed.credential-scope": "table-prefix",
        _SCOPE_PREFIX: prefix,
    }


async def vend_copy_credentials(
    services: IcebergServices, request: JsonRequest, catalog: Catalog, copy: Entry
) -> dict[str, Any]:  # Any: JSON
    """Vended credentials for the restricted copy of a plan, as an entry of `storage-credentials`.

    They cannot be refreshed: after their expiry the client plans again.
    """
    data = services.data_access.of_copy(copy)
    key = await services.access.vend(request, catalog, request.table, data)
    return {"prefix": f"s3://{data.bucket}/{data.location.directory}", "config": key.settings}


def table_path(catalog: Catalog, identifier: Identifier, operation: str) -> str:
    """The path of an operation on a table, relative to the catalog's URI."""
    namespace = quote(SEPARATOR.join(identifier.namespace), safe="")
    table = quote(identifier.name, safe="")
    return f"v1/{quote(catalog.name, safe='')}/namespaces/{namespace}/tables/{table}/{operation}"


def _signing_settings(
    request: JsonRequest, catalog: Catalog, identifier: Identifier, hint: UnregisteredTableHint
) -> dict[str, str]:
    """The signing endpoint, under the setting names of all client versions."""
    host = request.http.headers.get("host", "")
    uri, endpoint = f"{request.http.scheme}://{host}{request.mount}", table_path(catalog, identifier, "sign")
    return {
        "s3.remote-signing-enabled": "true",
        "signer.uri": uri,
        # With the hint, because engines that purge a table request signatures after dropping it.
        "signer.endpoint": endpoint + hint.query,
        # Without `s3.signer.endpoint`, PyIceberg uses the endpoint that signs for any table: it has one signer for all
        # tables. Java clients would prefer that setting to `signer.endpoint`. Bucket names of external stores are
        # unique only within a catalog.
        "s3.signer.uri": uri if catalog.storage_revision is None else f"{uri}/v1/{quote(catalog.name, safe='')}",
        # PyIceberg needs the name of the signer, and supports remote signing only with fsspec.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
