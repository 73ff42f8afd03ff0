"""Parses token requests: a form in the body, with client credentials in the form or the Authorization header."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.wire.http.message import Request, decode_component

from .errors import OAuthFault

MAX_BODY_BYTES: Final = 64 * 1024
_MAX_FIELDS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"
_BASIC: Final = "basic "


@dataclass(frozen=True, slots=True)
class TokenForm:
    """A token request and its client credentials. Has secrets."""

    fields: Mapping[str, str]
    client: tuple[str, Secret] | None

    def __repr__(self) -> str:
        return "TokenForm(***)"

    def required(self, name: str) -> str:
        """A required field. Raises OAuthFault."""
        value = self.fields.get(name)
        if not value:
            raise OAuthFault("invalid_request", f"{name} is required")
        return value


async def read_form(request: Request) -> TokenForm:
    """Read a token request. Raises OAuthFault, TooLarge."""
    if request.raw_query:
        # Proxies log URLs, so secrets must not be in them.
        raise OAuthFault("invalid_request", "parameters must be in the body, not in the URL")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise OAuthFault("invalid_request", f"Content-Type must be {_FORM}")
    fields = parse_form(await request.body.read(MAX_BODY_BYTES))
    return TokenForm(fields, _client(fields, request.headers.get("authorization", "")))


def parse_form(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises OAuthFault for repeated fields, and text that is not UTF-8."""
    fields: dict[str, str] = {}
    try:
        pairs = body.decode("utf-8").split("&")
        if len(pairs) > _MAX_FIELDS:
            raise OAuthFault("invalid_request", f"a request has at most {_MAX_FIELDS} parameters")
        for pair in pairs:
            if not pair:
                continue
            name, _, value = pair.partition("=")
            name = decode_component(name)
            if name in fields:
                raise OAuthFault("invalid_request", "a parameter is given more than once")
            fields[name] = decode_component(value)
    except (UnicodeDecodeError, InvalidInput) as error:
        raise OAuthFault("invalid_request", "the form is not UTF-8") from error
    return fields


def _client(fields: Mapping[str, str], header: str) -> tuple[str, Secret] | None:
    by_header = _basic(header) if header[: len(_BASIC)].lower() == _BASIC else None
    client_id, secret = fields.get("client_id"), fields.get("client_secret")
    if by_header is not None:
        # Some clients repeat their id in the form.
        if secret is not None or (client_id is not None and client_id != by_header[0]):
            raise OAuthFault("invalid_request", "client credentials are in both the header and the form")
        return by_header
    if secret is None:
        return None
    if not client_id:
        raise OAuthFault("invalid_request", "client_id is required")
    return client_id, Secret(secret)


def _basic(header: str) -> tuple[str, Secret]:
    """The client credentials of an Authorization header, without URL decoding: Iceberg clients do not encode them."""
    try:
        text = base64.b64decode(header[len(_BASIC) :].strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        text = ""
    client_id, colon, secret = text.partition(":")
    if not colon or not client_id:
        raise OAuthFault("invalid_client", "invalid Authorization header: expected Basic with a client id", status=401)
    return client_id, Secret(secret)
