"""How a table or view is shown: its metadata, where that is, and how to reach its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.governance.policies import Restriction
from lakebed.iceberg.metadata import serialize_table
from lakebed.tables.cache import CachedMetadata
from lakebed.tables.identifiers import Identifier
from lakebed.tables.model import Entry, EntryKind, Warehouse
from lakebed.tables.restrictions.shown import shown_metadata
from lakebed.wire.http.message import Headers, Response

from .delegation import HEADER, Delegation, asked_mode, delegate
from .errors import JSON
from .request import CatalogRequest
from .services import CatalogServices

_encode = msgspec.json.Encoder().encode

SCAN_PLANNING_MODE: Final = "scan-planning-mode"
"""By which clients are told who plans scans of a table."""

ALL: Final = "all"
REFS: Final = "refs"

_LONG_BYTES: Final = 256 * 1024
"""Longer answers go out in the pieces that metadata is kept in: to join them would cost as much as to send them."""


def snapshots_mode(request: CatalogRequest) -> str:
    """Which snapshots the client wants to see: `all`, or those that a branch or tag names. Raises InvalidInput."""
    mode = request.http.query.get("snapshots", ALL).lower()
    if mode not in (ALL, REFS):
        raise InvalidInput("snapshots is all or refs", argument="snapshots", value=mode)
    return mode


def shown_pieces(metadata: CachedMetadata, mode: str) -> Sequence[bytes]:
    """The metadata as the client wants to see it."""
    if mode == ALL:
        return metadata.pieces
    if metadata.referenced is None:
        metadata.referenced = serialize_table(metadata.table, referenced_snapshots_only=True)
    return (metadata.referenced,)


def _answer(headers: Headers, metadata_at: str, metadata: Sequence[bytes], rest: Mapping[str, object]) -> Response:
    """A table with its metadata, and with what else is to be said of it."""
    before = b'{"metadata-location":%b,"metadata":' % _encode(metadata_at)
    pieces = [before, *metadata, b"," + _encode(rest)[1:]]
    length = sum(map(len, pieces))
    if length > _LONG_BYTES:
        return Response(200, headers, files=pieces, length=length)
    return Response(200, headers, b"".join(pieces))


async def table_response(
    services: CatalogServices,
    request: CatalogRequest,
    warehouse: Warehouse,
    identifier: Identifier,
    entry: Entry,
    metadata: CachedMetadata,
) -> Response:
    """A table as createTable, loadTable and registerTable show it; 304 if the client has it already."""
    mode = snapshots_mode(request)
    restrictions = services.entries.restrictions
    restriction = await restrictions.of(request.caller.principal, warehouse, identifier.namespace, entry)
    if restriction is not None:
        return _restricted_response(services, request, entry, metadata, mode, restriction)
    granted = await delegate(
        services, request, warehouse, identifier, entry.location, lambda: metadata.table.properties, entry=entry
    )
    tag = _tag(request, entry.version_token, mode, granted)
    if _is_known(request, tag, services.clock.now_ms()):
        return Response(304, [("ETag", tag)])
    rest: dict[str, Any] = {"config": granted.config}
    headers: Headers = [JSON, ("ETag", tag)]
    if granted.credentials:
        rest["storage-credentials"] = granted.credentials
        headers.append(("Cache-Control", "no-store, private"))
    return _answer(headers, entry.metadata_at, shown_pieces(metadata, mode), rest)


def _restricted_response(
    services: CatalogServices,
    request: CatalogRequest,
    entry: Entry,
    metadata: CachedMetadata,
    mode: str,
    restriction: Restriction,
) -> Response:
    """A table as it is shown to whom policies restrict: no way to its files, and the advice to ask for plans."""
    seen = f"{entry.version_token} {mode} {restriction.key}"
    tag = f'"{hashlib.sha256(seen.encode()).hexdigest()[:32]}"'
    if _is_known(request, tag, services.clock.now_ms()):
        return Response(304, [("ETag", tag)])
    config = services.store.client_settings(request.http) | {SCAN_PLANNING_MODE: "server"}
    shown = shown_metadata(metadata.table, restriction, referenced_snapshots_only=mode == REFS)
    return _answer([JSON, ("ETag", tag)], entry.metadata_at, [shown], {"config": config})


def commit_document(entry: Entry, metadata: CachedMetadata, commit_id: str = "") -> dict[str, Any]:
    """A table after a commit, as the contract shows it, and its version for who moves pointers himself."""
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
    """The answer to a commit."""
    tag = f'"{hashlib.sha256(f"{entry.version_token} {ALL}".encode()).hexdigest()[:32]}"'
    return _answer([JSON, ("ETag", tag)], entry.metadata_at, metadata.pieces, _version(entry, commit_id))


def view_response(entry: Entry, metadata: CachedMetadata) -> Response:
    """A view."""
    answer = {
        "metadata-location": entry.metadata_at,
        "metadata": msgspec.Raw(metadata.document),
        "config": {},
    }
    return Response(200, [JSON], _encode(answer))


def _tag(request: CatalogRequest, version: str, mode: str, granted: Delegation) -> str:
    """An entity tag: of the metadata, how it is shown, and to whom what was granted until when."""
    seen = f"{version} {mode}"
    asked = asked_mode(request.http.headers.get(HEADER))
    if not granted.has_secrets:
        seen = f"{seen} withheld {bool(granted.credentials)}"
    elif asked is not None:
        seen = f"{seen} {request.caller.principal.arn} {asked}"
    if granted.revalidate_after_ms is None:
        return f'"{hashlib.sha256(seen.encode()).hexdigest()[:32]}"'
    # The credentials in a client's copy must be good for a while: their time is in the tag.
    return f'"{hashlib.sha256(seen.encode()).hexdigest()[:32]}.{granted.revalidate_after_ms}"'


def _is_known(request: CatalogRequest, tag: str, now_ms: int) -> bool:
    """Whether the client has the answer already, with credentials that are still good."""
    given = request.http.headers.get("if-none-match")
    if given is None or request.http.method != "GET":
        return False
    wanted = tag.strip('"').partition(".")[0]
    for one in given.split(","):
        name, _, until = one.strip().removeprefix("W/").strip('"').partition(".")
        if name == wanted and (not until or (until.isascii() and until.isdigit() and int(until) > now_ms)):
            return True
    return False


async def commit_shown_again(services: CatalogServices, request: CatalogRequest, entry_id: str) -> Response:
    """The answer to a commit that was answered before: the table as it is now. Raises NotFound."""
    entry = (await services.entries.by_id(entry_id)).entry
    return commit_response(entry, await services.entries.metadata(entry))


async def table_shown_again(services: CatalogServices, request: CatalogRequest, entry_id: str) -> Response:
    """The answer to a request for a table that was answered before: the table as it is now. Raises NotFound."""
    found = await services.entries.by_id(entry_id)
    metadata = await services.entries.metadata(found.entry)
    return await table_response(services, request, found.warehouse, found.identifier, found.entry, metadata)


async def replayed(services: CatalogServices, request: CatalogRequest, entry_id: str) -> Response:
    """The answer to a request that was answered before: the table or view as it is now. Raises NotFound."""
    found = await services.entries.by_id(entry_id)
    metadata = await services.entries.metadata(found.entry)
    if found.entry.kind is EntryKind.VIEW:
        return view_response(found.entry, metadata)
    if request.http.method == "POST" and "table" in request.names:
        return commit_response(found.entry, metadata)
    return await table_response(services, request, found.warehouse, found.identifier, found.entry, metadata)
