"""Signs requests for a table's files, for clients that are given no keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchTable, NoSuchWarehouse, NotSupported
from lakebed.governance.remote_signing import Reach, StoreCall, check_within, passed_on, reach_of, signed_headers
from lakebed.tables.data_access import TableData
from lakebed.tables.gate import Action
from lakebed.tables.locations import placed_at
from lakebed.tables.model import EntryKind
from lakebed.tables.namespaces import no_such_namespace
from lakebed.wire.http.message import Response
from lakebed.wire.s3.documents.deletion import read_deletion
from lakebed.wire.s3.xml import MalformedDocument

from ..answers import ok
from ..delegation import ANY_TABLE_SIGNING
from ..request import CatalogRequest
from ..routes import Route
from ..services import CatalogServices
from ..signatures import signature_headers
from ..store_address import StoreRequest
from ..whereabouts import whereabouts_in

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_REPEATABLE: Final = frozenset({"GET", "HEAD"})


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
    reach: Reach


async def sign_request(services: CatalogServices, request: CatalogRequest) -> Response:
    """Sign a request for the files of the table in the path."""
    wanted = _read(services, request)
    identifier = request.table
    sought = await services.entries.seek(services.meta, request.warehouse, identifier)
    warehouse, entry, where = sought.warehouse, sought.entry, whereabouts_in(request.http)
    if where is not None and entry is None:
        data = await services.data_access.of_unrecorded(
            request.caller, warehouse, identifier, where.table, where.location, where.properties
        )
        if sought.namespace is None:
            raise no_such_namespace(identifier.namespace)
        return _signed(services, request, wanted, data)
    if entry is None or entry.kind is not EntryKind.TABLE or (entry.dropped_ms is not None and not _is_look(wanted)):
        # Who may not read the data does not learn that there is no table.
        await services.entries.admit(request.caller, sought, EntryKind.TABLE, Action.GET_TABLE_DATA)
        raise NoSuchTable(f"Table does not exist: {identifier}")
    data = await services.data_access.of_entry(request.caller, warehouse, identifier.namespace, entry)
    return _signed(services, request, wanted, data)


async def sign_s3_request(services: CatalogServices, request: CatalogRequest) -> Response:
    """Sign a request for the files of whichever table they are of: for clients that do not say which."""
    wanted = _read(services, request)
    bucket = wanted.address.target.bucket
    try:
        warehouse = await services.warehouses.find(services.meta, bucket)
    except NoSuchWarehouse as error:
        raise AccessDenied("the request is not for the files of a table") from error
    placed = await placed_at(services.meta, warehouse.bucket.id, wanted.reach.first)
    if placed is None or placed.entry.kind is not EntryKind.TABLE:
        raise AccessDenied("the request is not for the files of a table")
    if placed.entry.dropped_ms is not None and not _is_look(wanted):
        raise AccessDenied("the request is for the files of a table that was dropped")
    data = await services.data_access.of_entry(request.caller, warehouse, placed.namespace, placed.entry)
    return _signed(services, request, wanted, data)


def _is_look(wanted: _Wanted) -> bool:
    """Whether the request only asks if a file is there: engines do so for tables that they have just dropped."""
    return wanted.document.method == "HEAD"


def _read(services: CatalogServices, request: CatalogRequest) -> _Wanted:
    document = request.document(SignDocument)
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
    call = StoreCall(
        document.method,
        address.target.bucket,
        address.target.key,
        address.query,
        _doomed(document.body) if document.method == "POST" and "delete" in address.query else (),
        _copy_source(document.headers),
    )
    return _Wanted(document, address, reach_of(call))


def _doomed(body: str | None) -> tuple[str, ...]:
    if body is None:
        return ()
    try:
        return tuple(one.key for one in read_deletion(body.encode()).objects)
    except (MalformedDocument, UnicodeEncodeError) as error:
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


def _signed(services: CatalogServices, request: CatalogRequest, wanted: _Wanted, data: TableData) -> Response:
    document, address = wanted.document, wanted.address
    if address.target.bucket != data.bucket:
        raise AccessDenied(f"the table's files are in another bucket. bucket={address.target.bucket}")
    check_within(wanted.reach, data, may_write=data.writes)
    key = services.vending.vend(
        request.caller.principal,
        table=data.table,
        bucket=data.bucket,
        directories=data.directories,
        # No more than this request needs: the token goes back with the signature.
        writes=wanted.reach.writes,
    )
    signed = signed_headers(document.headers)
    made = signature_headers(
        document.method,
        address,
        signed,
        access_key_id=key.access_key_id,
        secret=key.secret,
        session_token=key.session_token,
        region=services.store.region,
        now_ms=services.clock.now_ms(),
    )
    headers = passed_on(document.headers)
    known = {name.lower() for name in headers}
    headers |= {name: [value] for name, value in made.items() if name.lower() not in known}
    caching = "private" if document.method in _REPEATABLE else "no-cache"
    return ok({"uri": document.uri, "headers": headers}, [("Cache-Control", caching)])


ROUTES = (
    Route("signRequest", "POST", "/v1/{warehouse}/namespaces/{namespace}/tables/{table}/sign", sign_request),
    Route("signS3Request", "POST", f"/{ANY_TABLE_SIGNING}", sign_s3_request, is_standard=False),
)
