"""An authenticated request to a JSON API: its caller, the names in its path, and its checked body."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import SEPARATOR, Identifier, Levels, check_identifier
from lakebed.core.errors import IntegrityMismatch, InvalidInput, TooLarge
from lakebed.core.json.bounds import MAX_VALUES, check_json_bounds
from lakebed.core.json.parsing import parse_body
from lakebed.objects.model import Caller
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.aws.sigv4 import sha256_hex
from lakebed.wire.http.message import RAW_ERRORS, Request

from .idempotency import request_key

T = TypeVar("T")

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Largest document of a route with `is_large`: many times the size of a commit of a hundred wide tables."""

_SMALL_BODY_BYTES: Final = 1024 * 1024
_SMALL_VALUES: Final = 50_000
"""Bounds of all other documents."""

_ESCAPED_NUL: Final = rb"\u0000"
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""An escaped NUL, but not an escaped backslash before the same characters."""


@dataclass(frozen=True, slots=True)
class JsonRequest:
    """An authenticated and routed request."""

    http: Request
    caller: Caller
    mount: str
    """The base path of its mount, such as `/iceberg` or `/api/catalog`."""
    names: Mapping[str, str]
    """Decoded path segments by their names in the route."""
    body: bytes

    @property
    def catalog(self) -> str:
        """The warehouse in the path."""
        return self.names["warehouse"]

    @property
    def namespace(self) -> Levels:
        """The namespace in the path."""
        return split_namespace(self.names["namespace"])

    @property
    def table(self) -> Identifier:
        """The table in the path."""
        return check_identifier(self.namespace, self.names["table"])

    @property
    def view(self) -> Identifier:
        """The view in the path."""
        return check_identifier(self.namespace, self.names["view"])

    @property
    def mutation(self) -> Mutation:
        """The caller and the idempotency key of a change. Raises InvalidInput for an invalid key."""
        return Mutation(self.caller, request_key(self.http, self.caller.principal.arn, self.body))

    async def document(self, kind: type[T]) -> T:
        """Parse the body. Raises InvalidInput with the path of the error."""
        return await parse_body(partial(parse_document, kind=kind), self.body)

    def flag(self, name: str) -> bool:
        """A query parameter that is `true` or `false` in any case; false if absent. Raises InvalidInput."""
        text = self.http.query.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InvalidInput(f"{name} must be true or false", argument=name, value=text)
        return text == "true"


def parse_document(body: bytes, kind: type[T]) -> T:
    """Parse a JSON document. Raises InvalidInput with the path of the error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the request document cannot be read: {error}") from error


def split_namespace(text: str) -> Levels:
    """The levels of a namespace in a path or parameter."""
    return tuple(text.split(SEPARATOR))


def decode_segment(raw: str) -> str:
    """Decode a path segment. Raises InvalidInput if it is not UTF-8 or contains NUL.

    A `+` is a space, as in queries: Java clients encode spaces in paths that way. All clients escape a plus.
    """
    try:
        decoded = unquote_to_bytes(raw.replace("+", " ").encode("utf-8", RAW_ERRORS)).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("path is not utf-8", argument="path") from error
    if "\0" in decoded:
        raise InvalidInput("path contains nul", argument="path")
    return decoded


async def read_body(request: Request, authenticated: Authenticated, *, is_large: bool) -> bytes:
    """Read the body, and check it against the signature and the bounds of the route. Call it after authentication.

    Raises TooLarge, IntegrityMismatch, InvalidInput.
    """
    limit = MAX_BODY_BYTES if is_large else _SMALL_BODY_BYTES
    if authenticated.body is None:
        body = await _signed_body(request, authenticated, limit)
    elif len(authenticated.body) > limit:
        raise TooLarge(f"body too large. size={len(authenticated.body)} limit={limit}")
    else:
        body = authenticated.body
    await parse_body(partial(_check, max_values=MAX_VALUES if is_large else _SMALL_VALUES), body)
    return body


async def _signed_body(request: Request, authenticated: Authenticated, limit: int) -> bytes:
    claim = authenticated.payload
    if claim.streaming is not None:
        raise InvalidInput("aws-chunked bodies are not supported for catalog requests", argument="x-amz-content-sha256")
    body = await request.body.read(limit)
    if claim.sha256 is not None and not hmac.compare_digest(claim.sha256, await parse_body(sha256_hex, body)):
        raise IntegrityMismatch("the body does not match the signed x-amz-content-sha256", digest="sha256-payload")
    return body


def _check(body: bytes, *, max_values: int) -> None:
    check_text(body)
    check_json_bounds(body, max_values=max_values)


def check_text(body: bytes) -> None:
    """Reject NUL in any string. Raises InvalidInput.

    No metadata store accepts NUL in text. In JSON it is always escaped; paths and queries are checked when decoded.
    """
    if _ESCAPED_NUL in body and _NUL.search(body) is not None:
        raise InvalidInput("request document contains nul")
