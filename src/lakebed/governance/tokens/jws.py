"""JWS tokens in compact form: parsing, verification and signing.

The key determines the algorithm, never the token: no key is for `none` or for a MAC. Unverified content is only used to
find the key.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple, TypeAlias

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from lakebed.core.errors import Unauthenticated

from .model import MAX_TOKEN_CHARS

PublicKey: TypeAlias = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey

ALGORITHMS: Final = (
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "PS256",
    "PS384",
    "PS512",
    "RS256",
    "RS384",
    "RS512",
)
"""Asymmetric signature algorithms. No other is accepted."""

_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.A)
_jws: Final = PyJWS(algorithms=ALGORITHMS)


class JwsHeader(msgspec.Struct, frozen=True):
    """The header of a token."""

    alg: str
    kid: str = ""
    typ: str = ""
    crit: list[str] | None = None


class UnverifiedToken(NamedTuple):
    """A parsed token whose signature is not verified."""

    header: JwsHeader
    payload: bytes


def read_unverified(token: str) -> UnverifiedToken:
    """Parse a token. Raises Unauthenticated if it is malformed or has an unsupported algorithm or extension."""
    if len(token) > MAX_TOKEN_CHARS or not _COMPACT.fullmatch(token):
        raise invalid_token()
    head, payload, _ = token.split(".")
    try:
        header = msgspec.json.decode(_bytes(head), type=JwsHeader)
        read = UnverifiedToken(header, _bytes(payload))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_token() from error
    if header.alg not in ALGORITHMS or header.crit is not None:
        # No critical extensions are supported.
        raise invalid_token()
    return read


def verified_payload(token: str, key: PublicKey, algorithm: str) -> bytes:
    """The payload, verified with this key and algorithm. Raises Unauthenticated."""
    try:
        payload: object = _jws.decode_complete(token, key, algorithms=[algorithm])["payload"]
    except (PyJWTError, ValueError, TypeError) as error:
        raise invalid_token() from error
    if not isinstance(payload, bytes):
        raise invalid_token()
    return payload


def signed(payload: bytes, key: EllipticCurvePrivateKey, algorithm: str, *, key_id: str, kind: str) -> str:
    """A signed token."""
    return _jws.encode(payload, key, algorithm=algorithm, headers={"kid": key_id, "typ": kind})


def invalid_token() -> Unauthenticated:
    """The same error for every invalid token, so that it reveals nothing to an attacker."""
    return Unauthenticated("the token is not valid")


def _bytes(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
