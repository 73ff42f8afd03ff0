"""Forged tokens: any header, any claims, any key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from lakebed.core.secrets import Secret


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(part: str) -> Any:  # Any: JSON
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def parts(token: Secret) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token."""
    head, claims, _ = token.reveal().split(".")
    return decoded(head), decoded(claims)


def unsigned(header: Mapping[str, Any], claims: object) -> str:
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"


def with_signature(header: Mapping[str, Any], claims: object, signature: bytes) -> Secret:
    return Secret(f"{unsigned(header, claims)}.{encoded(signature)}")


def es256(header: Mapping[str, Any], claims: object, key: ec.EllipticCurvePrivateKey) -> Secret:
    """Signed with ES256."""
    r, s = decode_dss_signature(key.sign(unsigned(header, claims).encode(), ec.ECDSA(SHA256())))
    return with_signature(header, claims, r.to_bytes(32) + s.to_bytes(32))


def hs256(header: Mapping[str, Any], claims: object, secret: bytes) -> Secret:
    """Signed with a MAC, whose secret may be public."""
    digest = hmac.new(secret, unsigned(header, claims).encode(), hashlib.sha256).digest()
    return with_signature(header, claims, digest)
