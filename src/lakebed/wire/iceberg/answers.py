"""Answers that several handlers give."""

from __future__ import annotations

import msgspec

from lakebed.wire.http.message import Headers, Response

from .errors import JSON

_encode = msgspec.json.Encoder().encode


def ok(document: object, headers: Headers | None = None) -> Response:
    """A document."""
    return Response(200, [JSON, *(headers or [])], _encode(document))


def no_content() -> Response:
    """Done, and nothing to say."""
    return Response(204, [])
