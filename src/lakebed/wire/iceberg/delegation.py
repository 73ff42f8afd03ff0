"""How a client gets at a table's files: with keys that the catalog hands out, by having requests signed, or on its own.

The client says what it can do in `X-Iceberg-Access-Delegation`; the catalog may give any of it, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from lakebed.core.delegation import AccessDelegation
from lakebed.core.errors import AccessDenied
from lakebed.governance.delegations import DelegationKind
from lakebed.tables.data_access import TableData
from lakebed.tables.identifiers import SEPARATOR, Identifier
from lakebed.tables.model import Entry, Warehouse
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.table_access import allowed_delegation, credential_settings, purpose

from .services import IcebergServices
from .unregistered_table_hint import UnregisteredTableHint

HEADER: Final = "x-iceberg-access-delegation"

ANY_TABLE_SIGNING: Final = "v1/aws/s3/sign"
"""Where requests are signed for the files of whichever table they are of, relative to the catalog's URI.

The contract's first place for it: clients go there that know of no other.
"""


_SCOPE_PREFIX: Final = "lakebed.credential-scope-prefix"


class AccessMode(StrEnum):
    """What a client can do, the better first."""

    VENDED = "vended-credentials"
    SIGNING = "remote-signing"


@dataclass(frozen=True, slots=True)
class TableAccess:
    """What goes into the answer that shows a table."""

    config: dict[str, str] = field(repr=False)
    credentials: list[dict[str, Any]] = field(default_factory=list, repr=False)
    revalidate_after_ms: int | None = None
    """From when on a client's copy of the answer is too old to be called good: its keys are about to expire."""
    has_secrets: bool = True
    """Whether the entries of `credentials` open anything; otherwise they say where the files are."""


@dataclass(frozen=True, slots=True)
class VendedCredentials:
    """Keys to a table's files, as clients read them."""

    facts: dict[str, str]
    """What they are, without the keys."""
    settings: dict[str, str] = field(repr=False)
    """The same with the keys, and how to use and renew them."""
    storage_credential: dict[str, Any] = field(repr=False)
    """The one entry of `storage-credentials`."""
    issued_ms: int
    expires_ms: int


def requested_mode(header: str | None, allowed: AccessDelegation = AccessDelegation.VENDED) -> AccessMode | None:
    """The best mode that the client requests and that is allowed; None without one.

    A lone `true` is how early clients requested credentials.
    """
    asked = {word.strip().lower() for word in (header or "").split(",")}
    if asked == {"true"}:
        asked = {str(AccessMode.VENDED)}
    is_allowed = {AccessMode.VENDED: allowed.vends, AccessMode.SIGNING: allowed.signs}
    return next((mode for mode in AccessMode if mode in asked and is_allowed[mode]), None)


async def delegate(
    services: IcebergServices,
    request: JsonRequest,
    warehouse: Warehouse,
    identifier: Identifier,
    location: str,
    properties: Callable[[], Mapping[str, str]],
    *,
    entry: Entry | None = None,
    entry_id: str = "",
) -> TableAccess:
    """What a client is told and given to reach the files of a table, or of one that is staged under `entry_id`.

    `properties` are asked for only where they decide: to know them, a table's metadata has to be parsed.
    Raises AccessDenied when the client asks for access and the caller may not even read; LocationTaken when a staged
    table's directories are not free. Where credentials are not vended, every client is told where the files are.
    """
    config = services.store.client_settings(request.http)
    header, allowed = request.http.headers.get(HEADER), allowed_delegation(services.access_delegation, warehouse)
    if not allowed.vends:
        config |= scope_facts(f"{location.rstrip('/')}/", vends=False)
    mode = requested_mode(header, allowed)
    if mode is None:
        if requested_mode(header) is None:
            return TableAccess(config, has_secrets=allowed.vends)
        return TableAccess(config, [{"prefix": config[_SCOPE_PREFIX], "config": config}], has_secrets=False)
    try:
        if entry is not None:
            data = await services.data_access.of_entry(request.caller, warehouse, identifier.namespace, entry)
        else:
            data = await services.data_access.of_staged(
                request.caller, warehouse, identifier, entry_id, location, properties()
            )
    except AccessDenied:
        if entry is not None and request.http.method == "POST":
            # This very request has made the table: to refuse it now would be to say that it has not.
            return TableAccess(config)
        raise
    # Not every client signs for a staged table, of which nothing is on record: where keys are vended, it needs those.
    if mode is AccessMode.SIGNING and (entry is not None or not allowed.vends):
        where = UnregisteredTableHint(data.table, location, properties())
        return TableAccess(config | _signing_settings(request, warehouse, identifier, where))
    unrecorded = None if entry is not None else UnregisteredTableHint(data.table, location, properties())
    vended = vend(services, request, warehouse, identifier, data, unrecorded)
    return TableAccess(
        config | vended.settings,
        [vended.storage_credential],
        vended.issued_ms + (vended.expires_ms - vended.issued_ms) // 2,
    )


def vend(
    services: IcebergServices,
    request: JsonRequest,
    warehouse: Warehouse,
    identifier: Identifier,
    data: TableData,
    unrecorded: UnregisteredTableHint | None = None,
) -> VendedCredentials:
    """Keys to a table's files; to renew those of a table that is not on record, the client says where they are.

    One entry, for the table's location, whatever further directories the keys open: clients that renew their keys
    insist on exactly one. The others are reached with the same keys from the table's own settings.
    """
    key = services.vending.vend(
        request.caller.principal,
        purpose(request, DelegationKind.VENDED, warehouse, identifier),
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
        "client.refresh-credentials-endpoint": table_path(warehouse, identifier, "credentials")
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


def vend_copy(
    services: IcebergServices, request: JsonRequest, warehouse: Warehouse, copy: Entry
) -> dict[str, Any]:  # Any: JSON
    """Keys to a copy that a plan is of, as an entry of `storage-credentials`; whatever the client can do besides.

    They are not renewed: a plan that takes longer than they are good is made again.
    """
    data = services.data_access.of_copy(copy)
    key = services.vending.vend(
        request.caller.principal,
        purpose(request, DelegationKind.VENDED, warehouse, request.table),
        table=data.table,
        bucket=data.bucket,
        directories=data.directories,
        writes=False,
    )
    return {
        "prefix": f"s3://{data.bucket}/{data.home.directory}",
        "config": credential_settings(key, services.store, request.http),
    }


def table_path(warehouse: Warehouse, identifier: Identifier, operation: str) -> str:
    """The path of an operation on a table, relative to the catalog's URI."""
    namespace = quote(SEPARATOR.join(identifier.namespace), safe="")
    table = quote(identifier.name, safe="")
    return f"v1/{quote(warehouse.name, safe='')}/namespaces/{namespace}/tables/{table}/{operation}"


def _signing_settings(
    request: JsonRequest, warehouse: Warehouse, identifier: Identifier, where: UnregisteredTableHint
) -> dict[str, str]:
    """Where requests are signed, under the names that clients of each age look for."""
    host = request.http.headers.get("host", "")
    uri, endpoint = f"{request.http.scheme}://{host}{request.mount}", table_path(warehouse, identifier, "sign")
    return {
        "s3.remote-signing-enabled": "true",
        "signer.uri": uri,
        # Engines that purge a table drop it first, and have the deletion of its files signed then.
        "signer.endpoint": endpoint + where.query,
        # No `s3.signer.endpoint`, which Java clients would heed in place of the other. PyIceberg knows only that name,
        # and has one signer at a time for all tables that it has open: it is left to go where any table is signed for.
        "s3.signer.uri": uri,
        # PyIceberg signs so with one of its two file systems, and has to be told which signer.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
