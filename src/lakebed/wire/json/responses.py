"""Answers that several handlers give."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lakebed.tables.identifiers import Levels
from lakebed.wire.http.message import Headers, Response

from .errors import JSON

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode


def ok(document: object, headers: Headers | None = None) -> Response:
    """A document."""
    return Response(200, [JSON, *(headers or [])], _encode(document))


def no_content() -> Response:
    """Done, and nothing to say."""
    return Response(204, [])


def identifiers(namespace: Levels, names: Sequence[str]) -> msgspec.Raw:
    """Tables or views of one namespace, as lists have them.

    Lists of ten thousand names are asked for again and again, so there is no object for each: the names are written as
    lines, and what is the same in all is put in place of the line ends. JSON has none within a text.
    """
    if not names:
        return msgspec.Raw(b"[]")
    before = b'{"namespace":' + _encode(namespace) + b',"name":'
    lines = _encoder.encode_lines(names).rstrip(b"\n")
    return msgspec.Raw(b"[" + before + lines.replace(b"\n", b"}," + before) + b"}]")
