"""Signs requests for a table's files, for clients that are given no keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.access.data_access import TableData
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.locations.directories import locate_entry
from lakebed.catalog.model import Catalog, EntryKind
from lakebed.catalog.namespaces import no_such_namespace
from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchTable, NotSupported
from lakebed.core.json.parsing import parse_body
from lakebed.core.secrets import Secret
from lakebed.governance.delegation.delegations import DelegationKind
from lakebed.governance.delegation.remote_signing import (
    AffectedKeys,
    SigningRequest,
    affected_keys,
    check_within,
    returned_headers,
    signed_headers,
)
from lakebed.objects.buckets.bucket import bucket_from
from lakebed.objects.rows import BUCKET_BY_NAME
from lakebed.wire.aws import sigv4
from lakebed.wire.aws.store_address import StoreRequest
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route
from lakebed.wire.json.table_access import access_purpose, allowed_delegation

from ..delegation import ANY_TABLE_SIGNING
from ..services import IcebergServices
from ..unregistered_table_hint import hint_of_request

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

_NEVER_KEPT: Final = (("Cache-Control", "no-cache"),)
"""No signature may be kept for a second request, though that of a read would be good for every range of a file.

Java clients keep those that come with `Cache-Control: private` in one place for all users of their process, under
method, region and URI: not under who asked, nor where. A second user of the same Spark or Trino would read with the
first one's signature what it has no rights to, and would pass for the first one in every log.
"""


class SignDocument(msgspec.Struct):
    """The body of signRequest."""

    region: str
    uri: str
    method: str
    headers: dict[str, list[str]]
    properties: dict[str, str] = {}
    body: str | None = None
    provider: str = "s3"


class _Wanted(NamedTuple):
    """A request to be signed, read and understood."""

    document: SignDocument
    address: StoreRequest
    reach: AffectedKeys


async def sign_request(services: IcebergServices, request: JsonRequest) -> Response:
    """Sign a request for the files of the table in the path."""
    wanted = await _read(services, request)
    identifier = request.table
    lookup = await services.entries.look_up(services.meta, request.catalog, identifier)
    catalog, entry, where = lookup.catalog, lookup.entry, hint_of_request(request.http)
    if where is not None and entry is None:
        data = await services.data_access.of_unrecorded(
            request.caller, catalog, identifier, where.table, where.location, where.properties
        )
        if lookup.namespace is None:
            raise no_such_namespace(identifier.namespace)
        return _signed(services, request, wanted, catalog, identifier, data)
    if entry is None or entry.kind is not EntryKind.TABLE or (entry.dropped_ms is not None and not _is_look(wanted)):
        # Who may not read the data does not learn that there is no table.
        await services.entries.authorize_entry(request.caller, lookup, EntryKind.TABLE, Action.GET_TABLE_DATA)
        raise NoSuchTable(f"Table does not exist: {identifier}")
    data = await services.data_access.of_entry(request.caller, catalog, identifier.namespace, entry)
    return _signed(services, request, wanted, catalog, identifier, data)


async def sign_s3_request(services: IcebergServices, request: JsonRequest) -> Response:
    """Sign a request for the files of whichever table they are of: for clients that do not say which."""
    wanted = await _read(services, request)
    bucket = await services.meta.row(BUCKET_BY_NAME, wanted.address.target.bucket)
    placed = None if bucket is None else await locate_entry(services.meta, bucket_from(bucket), wanted.reach.first)
    if placed is None or placed.entry.kind is not EntryKind.TABLE:
        raise AccessDenied("the request is not for the files of a table")
    if placed.entry.dropped_ms is not None and not _is_look(wanted):
        raise AccessDenied("the request is for the files of a table that was dropped")
    data = await services.data_access.of_entry(request.caller, placed.catalog, placed.namespace, placed.entry)
    identifier = Identifier(placed.namespace, placed.entry.name)
    return _signed(services, request, wanted, placed.catalog, identifier, data)


def _is_look(wanted: _Wanted) -> bool:
    """Whether the request only asks if a file is there: engines do so for tables that they have just dropped."""
    return wanted.document.method == "HEAD"


async def _read(services: IcebergServices, request: JsonRequest) -> _Wanted:
    document = await request.document(SignDocument)
    if document.provider != "s3":
        raise NotSupported(f"requests to this provider are not signed. provider={document.provider}")
    if document.region != services.store.region:
        raise InvalidInput(
            f"the region is another than the store's. region={document.region} expected={services.store.region}",
            argument="region",
        )
    for name, values in document.headers.items():
        if not _NAME.fullmatch(name) or any(_CONTROL.search(value) for value in values):
            raise InvalidInput("a header cannot be sent as it is", argument="headers", value=name)
    address = services.store.parse(document.uri, request.http)
    call = SigningRequest(
        document.method,
        address.target.bucket,
        address.target.key,
        address.query,
        await _deleted_keys(services, document.body) if document.method == "POST" and "delete" in address.query else (),
        _copy_source(document.headers),
    )
    return _Wanted(document, address, affected_keys(call))


def _shown(wanted: _Wanted) -> str:
    """The request that is signed, as it is kept: the path, and what it asks for there. No query holds a secret here."""
    target, query = wanted.address.target, wanted.address.raw_query
    return f"{target.bucket}/{target.key}" + (f"?{query}" if query else "")


async def _deleted_keys(services: IcebergServices, body: str | None) -> tuple[str, ...]:
    if body is None:
        return ()
    try:
        return tuple(await parse_body(services.deleted_keys, body.encode()))
    except (InvalidInput, UnicodeEncodeError) as error:
        raise InvalidInput("the body is not a list of what to delete", argument="body") from error


def _copy_source(headers: Mapping[str, list[str]]) -> tuple[str, str] | None:
    """What `x-amz-copy-source` names, read as the store reads it."""
    given = [value for name, values in headers.items() if name.lower() == "x-amz-copy-source" for value in values]
    if not given:
        return None
    if len(given) > 1:
        raise InvalidInput("a copy has one source", argument="x-amz-copy-source")
    try:
        decoded = unquote_to_bytes(given[0].partition("?versionId=")[0]).decode()
    except UnicodeError as error:
        raise InvalidInput("the copy's source is not UTF-8", argument="x-amz-copy-source") from error
    bucket, _, key = decoded.removeprefix("/").partition("/")
    return bucket, key


def _signed(
    services: IcebergServices,
    request: JsonRequest,
    wanted: _Wanted,
    catalog: Catalog,
    identifier: Identifier,
    data: TableData,
) -> Response:
    if not allowed_delegation(services.access_delegation, catalog).signs:
        raise AccessDenied(f"remote signing is switched off for this catalog. catalog={catalog.name}")
    document, address = wanted.document, wanted.address
    if address.target.bucket != data.bucket:
        raise AccessDenied(f"the table's files are in another bucket. bucket={address.target.bucket}")
    check_within(wanted.reach, data, may_write=data.writes)
    key = services.vending.vend(
        request.caller.principal,
        access_purpose(
            request,
            DelegationKind.SIGNED,
            catalog,
            identifier,
            method=document.method,
            target=_shown(wanted),
        ),
        table=data.table,
        bucket=data.bucket,
        directories=data.directories,
        # No more than this request needs: the token goes back with the signature.
        writes=wanted.reach.writes,
    )
    signed = signed_headers(document.headers)
    made = _signature_headers(
        document.method,
        address,
        signed,
        access_key_id=key.access_key_id,
        secret=key.secret,
        session_token=key.session_token,
        region=services.store.region,
        now_ms=services.clock.now_ms(),
    )
    headers = returned_headers(document.headers)
    known = {name.lower() for name in headers}
    headers |= {name: [value] for name, value in made.items() if name.lower() not in known}
    return ok({"uri": document.uri, "headers": headers}, [*_NEVER_KEPT])


def _signature_headers(
    method: str,
    wanted: StoreRequest,
    headers: Mapping[str, str],
    *,
    access_key_id: str,
    secret: Secret,
    session_token: Secret,
    region: str,
    now_ms: int,
) -> dict[str, str]:
    """The headers that make the request a signed one, by SigV4 in its header, with temporary keys.

    `headers` are those to be signed besides, by name in lower case; what is said of the body is among them.
    """
    amz_date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    added = {"host": wanted.host, "x-amz-date": amz_date, "x-amz-security-token": session_token.reveal()}
    everything = {**headers, **added}
    names = tuple(sorted(everything))
    scope = sigv4.CredentialScope(access_key_id, amz_date[:8], region, "s3")
    canonical = sigv4.canonical_request(
        method,
        # As it will be sent: S3 signs a path encoded once, which it is already.
        wanted.raw_path,
        sigv4.canonical_query(wanted.raw_query),
        sigv4.canonical_headers(everything, names),
        ";".join(names),
        headers["x-amz-content-sha256"],
    )
    signature = sigv4.SigningKey(secret, scope).sign(sigv4.string_to_sign(canonical, amz_date, scope.text))
    return {
        "Authorization": f"{sigv4.ALGORITHM} Credential={access_key_id}/{scope.text}, SignedHeaders={';'.join(names)},"
        f" Signature={signature}",
        "Host": wanted.host,
        "X-Amz-Date": amz_date,
        "X-Amz-Security-Token": session_token.reveal(),
        "X-Amz-Content-SHA256": headers["x-amz-content-sha256"],
    }


ROUTES = (
    Route("signRequest", "POST", "/v1/{warehouse}/namespaces/{namespace}/tables/{table}/sign", sign_request),
    Route("signS3Request", "POST", f"/{ANY_TABLE_SIGNING}", sign_s3_request, is_standard=False),
)
