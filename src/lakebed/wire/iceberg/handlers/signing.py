"""Remote signing: signs S3 requests for a table's files, for clients without credentials."""

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
from lakebed.governance.delegation.delegations import DelegationKind
from lakebed.governance.delegation.remote_signing import (
    AffectedKeys,
    SigningRequest,
    affected_keys,
    check_within,
    returned_headers,
    signed_headers,
)
from lakebed.objects.buckets.bucket import EXTERNAL, Bucket, bucket_from
from lakebed.objects.rows import BUCKET_BY_NAME
from lakebed.storage.credentials import Credentials
from lakebed.wire.aws import sigv4
from lakebed.wire.aws.store_address import ExternalAddress, StoreRequest
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route
from lakebed.wire.json.table_access import access_purpose

from ..delegation import ANY_TABLE_SIGNING
from ..services import IcebergServices
from ..unregistered_table_hint import hint_of_request

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

_NO_CACHE: Final = (("Cache-Control", "no-cache"),)
"""Signatures must not be cached, although a signature of a read is valid for every range of a file.

With `Cache-Control: private`, Java clients cache signatures by method, region and URI in one cache per process. A
second user of the same Spark or Trino process would then read with the first user's signature and permissions, and
appear as the first user in logs.
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


class _ParsedRequest(NamedTuple):
    """An S3 request to be signed, parsed."""

    document: SignDocument
    address: StoreRequest
    keys: AffectedKeys


async def sign_request(services: IcebergServices, request: JsonRequest) -> Response:
    """Sign a request for the files of the table in the path."""
    document = await _document(request)
    identifier = request.table
    lookup = await services.entries.look_up(services.meta, request.catalog, identifier)
    catalog, entry, hint = lookup.catalog, lookup.entry, hint_of_request(request.http)
    parsed = await _parse(services, request, document, catalog)
    if hint is not None and entry is None:
        data = await services.data_access.of_unregistered(
            request.caller, catalog, identifier, hint.table, hint.location, hint.properties
        )
        if lookup.namespace is None:
            raise no_such_namespace(identifier.namespace)
        return await _sign(services, request, parsed, catalog, identifier, data)
    if entry is None or entry.kind is not EntryKind.TABLE or (entry.dropped_ms is not None and not _is_head(parsed)):
        # Callers without read permission do not learn whether the table exists.
        await services.entries.authorize_entry(request.caller, lookup, EntryKind.TABLE, Action.GET_TABLE_DATA)
        raise NoSuchTable(f"Table does not exist: {identifier}")
    data = await services.data_access.of_entry(request.caller, catalog, identifier.namespace, entry)
    return await _sign(services, request, parsed, catalog, identifier, data)


async def sign_s3_request(services: IcebergServices, request: JsonRequest) -> Response:
    """Sign a request for the files of any table in the buckets of this server."""
    document = await _document(request)
    parsed = await _parse(services, request, document)
    row = await services.meta.row(BUCKET_BY_NAME, parsed.address.target.bucket)
    bucket = None if row is None or row[1].startswith(EXTERNAL) else bucket_from(row)
    return await _sign_located(services, request, parsed, bucket)


async def sign_catalog_request(services: IcebergServices, request: JsonRequest) -> Response:
    """Sign a request for the files of any table of a catalog."""
    document = await _document(request)
    catalog = await services.catalogs.find(services.meta, request.catalog)
    parsed = await _parse(services, request, document, catalog)
    if parsed.address.target.bucket != catalog.bucket_name:
        raise AccessDenied("the request is not for files of a table")
    return await _sign_located(services, request, parsed, catalog.bucket)


async def _sign_located(
    services: IcebergServices, request: JsonRequest, parsed: _ParsedRequest, bucket: Bucket | None
) -> Response:
    """Sign a request for the table in whose directories its files are. Raises AccessDenied."""
    placed = None if bucket is None else await locate_entry(services.meta, bucket, parsed.keys.first)
    if placed is None or placed.entry.kind is not EntryKind.TABLE:
        raise AccessDenied("the request is not for files of a table")
    if placed.entry.dropped_ms is not None and not _is_head(parsed):
        raise AccessDenied("the request is for files of a dropped table")
    if request.names.get("warehouse", placed.catalog.name) != placed.catalog.name:
        raise AccessDenied("the request is not for files of a table of this catalog")
    data = await services.data_access.of_entry(request.caller, placed.catalog, placed.namespace, placed.entry)
    identifier = Identifier(placed.namespace, placed.entry.name)
    return await _sign(services, request, parsed, placed.catalog, identifier, data)


def _is_head(parsed: _ParsedRequest) -> bool:
    """Whether the request only checks for a file: engines do so after they drop a table."""
    return parsed.document.method == "HEAD"


async def _document(request: JsonRequest) -> SignDocument:
    document = await request.document(SignDocument)
    if document.provider != "s3":
        raise NotSupported(f"unsupported provider: only s3 requests are signed. provider={document.provider}")
    for name, values in document.headers.items():
        if not _NAME.fullmatch(name) or any(_CONTROL.search(value) for value in values):
            raise InvalidInput("invalid header name or value", argument="headers", value=name)
    return document


async def _parse(
    services: IcebergServices, request: JsonRequest, document: SignDocument, catalog: Catalog | None = None
) -> _ParsedRequest:
    """The request to the object store of a catalog, or of this server. Raises InvalidInput for one to another store."""
    access = services.access
    if catalog is None or catalog.storage_revision is None:
        region, address = access.store.region, access.store.parse(document.uri, request.http)
    else:
        profile = (await access.profiles.of(catalog)).profile
        region = profile.region or access.store.region
        address = ExternalAddress(catalog.bucket_name, profile.endpoint).parse(document.uri)
    if document.region != region:
        raise InvalidInput(
            f"region differs from the region of the store. region={document.region} expected={region}",
            argument="region",
        )
    signing = SigningRequest(
        document.method,
        address.target.bucket,
        address.target.key,
        address.query,
        await _deleted_keys(services, document.body) if document.method == "POST" and "delete" in address.query else (),
        _copy_source(document.headers),
    )
    return _ParsedRequest(document, address, affected_keys(signing))


def _request_text(parsed: _ParsedRequest) -> str:
    """The path and query of the signed request, for the trace of delegated access. The query has no secrets."""
    target, query = parsed.address.target, parsed.address.raw_query
    return f"{target.bucket}/{target.key}" + (f"?{query}" if query else "")


async def _deleted_keys(services: IcebergServices, body: str | None) -> tuple[str, ...]:
    if body is None:
        return ()
    try:
        return tuple(await parse_body(services.deleted_keys, body.encode()))
    except (InvalidInput, UnicodeEncodeError) as error:
        raise InvalidInput("the body is not a DeleteObjects request", argument="body") from error


def _copy_source(headers: Mapping[str, list[str]]) -> tuple[str, str] | None:
    """The bucket and key in `x-amz-copy-source`, decoded as in the store."""
    sources = [value for name, values in headers.items() if name.lower() == "x-amz-copy-source" for value in values]
    if not sources:
        return None
    if len(sources) > 1:
        raise InvalidInput("x-amz-copy-source is given more than once", argument="x-amz-copy-source")
    try:
        decoded = unquote_to_bytes(sources[0].partition("?versionId=")[0]).decode()
    except UnicodeError as error:
        raise InvalidInput("x-amz-copy-source is not UTF-8", argument="x-amz-copy-source") from error
    bucket, _, key = decoded.removeprefix("/").partition("/")
    return bucket, key


async def _sign(
    services: IcebergServices,
    request: JsonRequest,
    parsed: _ParsedRequest,
    catalog: Catalog,
    identifier: Identifier,
    data: TableData,
) -> Response:
    if not (await services.access.allowed(catalog)).signs:
        raise AccessDenied(f"remote signing is disabled for this catalog. catalog={catalog.name}")
    document, address = parsed.document, parsed.address
    if address.target.bucket != data.bucket:
        raise AccessDenied(f"the request is for another bucket than the table's. bucket={address.target.bucket}")
    check_within(parsed.keys, data, may_write=data.writes)
    purpose = access_purpose(
        request, DelegationKind.SIGNED, catalog, identifier, method=document.method, target=_request_text(parsed)
    )
    keys = await services.access.signing_keys(request, catalog, purpose, data, writes=parsed.keys.writes)
    signature = _signature_headers(
        document.method,
        address,
        signed_headers(document.headers),
        keys,
        region=document.region,
        now_ms=services.clock.now_ms(),
    )
    headers = returned_headers(document.headers)
    present = {name.lower() for name in headers}
    headers |= {name: [value] for name, value in signature.items() if name.lower() not in present}
    return ok({"uri": document.uri, "headers": headers}, [*_NO_CACHE])


def _signature_headers(
    method: str,
    address: StoreRequest,
    headers: Mapping[str, str],
    keys: Credentials,
    *,
    region: str,
    now_ms: int,
) -> dict[str, str]:
    """The Signature Version 4 headers of a request.

    `headers` are the further headers to sign, by name in lower case, including `x-amz-content-sha256`.
    """
    amz_date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    token = {} if keys.session_token is None else {"X-Amz-Security-Token": keys.session_token.reveal()}
    added = {"host": address.host, "x-amz-date": amz_date} | {name.lower(): value for name, value in token.items()}
    all_headers = {**headers, **added}
    names = tuple(sorted(all_headers))
    scope = sigv4.CredentialScope(keys.access_key_id, amz_date[:8], region, "s3")
    canonical = sigv4.canonical_request(
        method,
        # As the client sends it: S3 signs the path encoded once.
        address.raw_path,
        sigv4.canonical_query(address.raw_query),
        sigv4.canonical_headers(all_headers, names),
        ";".join(names),
        headers["x-amz-content-sha256"],
    )
    signature = sigv4.SigningKey(keys.secret_access_key, scope).sign(
        sigv4.string_to_sign(canonical, amz_date, scope.text)
    )
    return {
        "Authorization": f"{sigv4.ALGORITHM} Credential={keys.access_key_id}/{scope.text},"
        f" SignedHeaders={';'.join(names)}, Signature={signature}",
        "Host": address.host,
        "X-Amz-Date": amz_date,
        **token,
        "X-Amz-Content-SHA256": headers["x-amz-content-sha256"],
    }


ROUTES = (
    Route("signRequest", "POST", "/v1/{warehouse}/namespaces/{namespace}/tables/{table}/sign", sign_request),
    Route("signS3Request", "POST", f"/{ANY_TABLE_SIGNING}", sign_s3_request, is_standard=False),
    Route(
        "signCatalogRequest",
        "POST",
        f"/v1/{{warehouse}}/{ANY_TABLE_SIGNING}",
        sign_catalog_request,
        is_standard=False,
    ),
)
