"""Parses the JSON credentials of metadata services and helper programs."""

from __future__ import annotations

import json

from ...core.errors import Unavailable
from ...core.secrets import Secret
from .model import Credentials, parse_expiry


def parse_object(body: bytes, source: str) -> dict[str, object]:
    """Parse a JSON object. Raises Unavailable, without quoting the text: it may contain secrets."""
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise Unavailable(f"response is not a JSON object. source={source}")
    return parsed


def credentials_of(document: dict[str, object], source: str) -> Credentials:
    """The credentials in a document. Metadata services use `Token`, helper programs `SessionToken`.

    Raises Unavailable if it is incomplete.
    """

    def text(name: str) -> str:
        value = document.get(name)
        return value if isinstance(value, str) else ""

    for name in ("AccessKeyId", "SecretAccessKey"):
        if not text(name):
            raise Unavailable(f"response without {name}. source={source}")
    token, expiry = text("Token") or text("SessionToken"), text("Expiration")
    return Credentials(
        access_key_id=text("AccessKeyId"),
        secret_access_key=Secret(text("SecretAccessKey")),
        session_token=Secret(token) if token else None,
        expires_ms=parse_expiry(expiry, source) if expiry else None,
        source=source,
    )
