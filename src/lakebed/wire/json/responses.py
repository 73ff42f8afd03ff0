"""Responses that several handlers share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lakebed.catalog.entries import Entries
from lakebed.catalog.identifiers import Levels, path_of
from lakebed.catalog.model import EntryKind
from lakebed.wire.http.message import Headers, Response

from .errors import JSON
from .paging import ListPage, read_page
from .request import JsonRequest

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode


def ok(document: object, headers: Headers | None = None) -> Response:
    """A JSON document."""
    return Response(200, [JSON, *(headers or [])], _encode(document))


def page_response(page: ListPage, document: dict[str, object], last: str | None) -> Response:
    """A page of a list; `last` is the position of its last entry if more follow."""
    return ok(document | {"next-page-token": page.next_token(last)})


def no_content() -> Response:
    """A response without a body."""
    return Response(204, [])


def identifiers(namespace: Levels, names: Sequence[str]) -> msgspec.Raw:
    """Identifiers of the tables or views of one namespace.

    Avoids an object per name, since lists of ten thousand names are common: the names are encoded as lines, and the
    common part of all identifiers replaces the line breaks, which no JSON string contains.
    """
    if not names:
        return msgspec.Raw(b"[]")
    before = b'{"namespace":' + _encode(namespace) + b',"name":'
    lines = _encoder.encode_lines(names).rstrip(b"\n")
    return msgspec.Raw(b"[" + before + lines.replace(b"\n", b"}," + before) + b"}]")


async def list_entries(entries: Entries, request: JsonRequest, kind: EntryKind) -> Response:
    """The requested page of a namespace's tables, views or generic tables."""
    levels = request.namespace
    page = read_page(request.http, f"{kind}s {request.catalog} {path_of(levels)}")
    found = await entries.list(request.caller, request.catalog, levels, kind, after=page.after, limit=page.limit)
    names = found.names
    return page_response(
        page, {"identifiers": identifiers(found.namespace, names)}, names[-1] if found.truncated else None
    )
