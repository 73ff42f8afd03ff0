"""Responses with a table or view: its metadata, the metadata location, and access to its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from lakebed.catalog.commits.metadata_cache import CachedMetadata
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import Catalog, Entry, EntryKind
from lakebed.catalog.restrictions.restricted_metadata import restricted_metadata
from lakebed.core.errors import InvalidInput
from lakebed.governance.policies import Restriction
from lakebed.iceberg.metadata import serialize_table
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.json.errors import JSON
from lakebed.wire.json.request import JsonRequest

from .delegation import HEADER, GrantedAccess, delegate_access, requested_mode
from .services import IcebergServices

_encode = msgspec.json.Encoder().encode

SCAN_PLANNING_MODE: Final = "scan-planning-mode"
"""The table setting that says whether the client or the server plans scans."""

ALL: Final = "all"
REFS: Final = "refs"

_LONG_BYTES: Final = 256 * 1024
"""Longer responses are sent in the pieces of the cached metadata: joining costs as much as sending."""


def snapshots_mode(request: JsonRequest) -> str:
    """The requested snapshots: `all`, or `refs` for those of branches and tags. Raises InvalidInput."""
    mode = request.http.query.get("snapshots", ALL).lower()
    if mode not in (ALL, REFS):
        raise InvalidInput("snapshots must be all or refs", argument="snapshots", value=mode)
    return mode


def metadata_pieces(metadata: CachedMetadata, mode: str) -> Sequence[bytes]:
    """The metadata with the requested snapshots."""
    if mode == ALL:
        return metadata.pieces
    if metadata.referenced is None:
        metadata.referenced = serialize_table(metadata.table, referenced_snapshots_only=True)
    return (metadata.referenced,)


def _metadata_response(
    headers: Headers, metadata_at: str, metadata: Sequence[bytes], rest: Mapping[str, object]
) -> Response:
    """A response with a table's metadata and further fields."""
    before = b'{"metadata-location":%b,"metadata":' % _encode(metadata_at)
    pieces = [before, *metadata, b"," + _encode(rest)[1:]]
    length = sum(map(len, pieces))
    if length > _LONG_BYTES:
        return Response(200, headers, files=pieces, length=length)
    return Response(200, headers, b"".join(pieces))


async def table_response(
    services: IcebergServices,
    request: JsonRequest,
    catalog: Catalog,
    identifier: Identifier,
    entry: Entry,
    metadata: CachedMetadata,
) -> Response:
    """The response of createTable, loadTable and registerTable; 304 if the client's copy is current."""
    mode = snapshots_mode(request)
    restrictions = services.entries.restrictions
    restriction = await restrictions.of(request.caller.principal, catalog, identifier.namespace, entry)
    if restriction is not None:
        return await _restricted_response(services, request, catalog, entry, metadata, mode, restriction)
    granted = await delegate_access(
        services, request, catalog, identifier, entry.location, lambda: metadata.table.properties, entry=entry
    )
    tag = _etag(request, entry.version_token, mode, granted)
    if _is_current(request, tag, services.clock.now_ms()):
        return Response(304, [("ETag", tag)])
    rest: dict[str, Any] = {"config": granted.config}
    headers: Headers = [JSON, ("ETag", tag)]
    if granted.credentials:
        rest["storage-credentials"] = granted.credentials
        headers.append(("Cache-Control", "no-store, private"))
    return _metadata_response(headers, entry.metadata_at, metadata_pieces(metadata, mode), rest)


async def _restricted_response(
    services: IcebergServices,
    request: JsonRequest,
    catalog: Catalog,
    entry: Entry,
    metadata: CachedMetadata,
    mode: str,
    restriction: Restriction,
) -> Response:
    """A table for a restricted principal: without access to its files, and with scan planning by the server."""
    tag = _hash_tag(f"{entry.version_token} {mode} {restriction.key}")
    if _is_current(request, tag, services.clock.now_ms()):
        return Response(304, [("ETag", tag)])
    store = await services.access.store_settings(request.http, catalog)
    config = store | {SCAN_PLANNING_MODE: "server"}
    restricted = restricted_metadata(metadata.table, restriction, referenced_snapshots_only=mode == REFS)
    return _metadata_response([JSON, ("ETag", tag)], entry.metadata_at, [restricted], {"config": config})


def commit_document(entry: Entry, metadata: CachedMetadata, commit_id: str = "") -> dict[str, Any]:
    """A table after a commit, with its version for clients that move metadata pointers."""
    return {
        "metadata-location": entry.metadata_at,
        "metadata": msgspec.Raw(metadata.document),
        **_version(entry, commit_id),
    }


def _version(entry: Entry, commit_id: str) -> dict[str, object]:
    return {
        "version-token": entry.version_token,
        "generation": entry.generation,
        "commit-id": commit_id or entry.version_token,
    }


def commit_response(entry: Entry, metadata: CachedMetadata, commit_id: str = "") -> Response:
    """The response to a commit."""
    tag = _hash_tag(f"{entry.version_token} {ALL}")
    return _metadata_response([JSON, ("ETag", tag)], entry.metadata_at, metadata.pieces, _version(entry, commit_id))


def view_response(entry: Entry, metadata: CachedMetadata) -> Response:
    """The response with a view."""
    document = {
        "metadata-location": entry.metadata_at,
        "metadata": msgspec.Raw(metadata.document),
        "config": {},
    }
    return Response(200, [JSON], _encode(document))


def _etag(request: JsonRequest, version: str, mode: str, granted: GrantedAccess) -> str:
    """The ETag of the metadata, the requested snapshots, and the access to files.

    A tag of a response with credentials ends with the time until which a cached response can be used.
    """
    content = f"{version} {mode}"
    access_mode = requested_mode(request.http.headers.get(HEADER))
    if not granted.has_secrets:
        content = f"{content} withheld {bool(granted.credentials)}"
    elif access_mode is not None:
        content = f"{content} {request.caller.principal.arn} {access_mode}"
    return _hash_tag(content, "" if granted.revalidate_after_ms is None else f".{granted.revalidate_after_ms}")


def _hash_tag(content: str, suffix: str = "") -> str:
    return f'"{hashlib.sha256(content.encode()).hexdigest()[:32]}{suffix}"'


def _is_current(request: JsonRequest, tag: str, now_ms: int) -> bool:
    """Whether the client's cached response is current, with credentials that stay valid."""
    header = request.http.headers.get("if-none-match")
    if header is None or request.http.method != "GET":
        return False
    current = tag.strip('"').partition(".")[0]
    for one in header.split(","):
        name, _, until = one.strip().removeprefix("W/").strip('"').partition(".")
        if name == current and (not until or (until.isascii() and until.isdigit() and int(until) > now_ms)):
            return True
    return False


async def replay_commit(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated commit, with the current table. Raises NotFound."""
    found = await services.entries.by_id(entry_id)
    return commit_response(found.entry, await services.entries.metadata(found.catalog, found.entry))


async def replay_table(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated request for a table, with the current table. Raises NotFound."""
    found = await services.entries.by_id(entry_id)
    metadata = await services.entries.metadata(found.catalog, found.entry)
    return await table_response(services, request, found.catalog, found.identifier, found.entry, metadata)


async def replay_entry(services: IcebergServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated request, with the current table or view. Raises NotFound."""
    found = await services.entries.by_id(entry_id)
    metadata = await services.entries.metadata(found.catalog, found.entry)
    if found.entry.kind is EntryKind.VIEW:
        return view_response(found.entry, metadata)
    if request.http.method == "POST" and "table" in request.names:
        return commit_response(found.entry, metadata)
    return await table_response(services, request, found.catalog, found.identifier, found.entry, metadata)
