"""Signed tokens in their compact form: read before they are verified, verified by a key of one algorithm, signed.

Which algorithm a token is verified by is decided by the key, never by the token: no key here is for `none`, and none is
for a MAC. What is read before the signature was checked serves to find the key, and is believed by nobody.
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
"""Signatures by a private key, checked with a public one. Nothing else is ever accepted."""

_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.A)
_jws: Final = PyJWS(algorithms=ALGORITHMS)


class JwsHeader(msgspec.Struct, frozen=True):
    """What a token says of its signature."""

    alg: str
    kid: str = ""
    typ: str = ""
    crit: list[str] | None = None


class UnverifiedToken(NamedTuple):
    """A token before its signature is checked."""

    header: JwsHeader
    payload: bytes


def read_unverified(token: str) -> UnverifiedToken:
    """The parts of a token. Raises Unauthenticated if it is none, or asks for what is not known here."""
    if len(token) > MAX_TOKEN_CHARS or not _COMPACT.fullmatch(token):
        raise invalid_token()
    head, payload, _ = token.split(".")
    try:
        header = msgspec.json.decode(_bytes(head), type=JwsHeader)
        read = UnverifiedToken(header, _bytes(payload))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_token() from error
    if header.alg not in ALGORITHMS or header.crit is not None:
        # What is critical to understand is not understood here, whatever it is.
        raise invalid_token()
    return read


def verified_payload(token: str, key: PublicKey, algorithm: str) -> bytes:
    """What was signed, by this key and with this algorithm. Raises Unauthenticated."""
    try:
        payload: object = _jws.decode_complete(token, key, algorithms=[algorithm])["payload"]
    except (PyJWTError, ValueError, TypeError) as error:
        raise invalid_token() from error
    if not isinstance(payload, bytes):
        raise invalid_token()
    return payload


def signed(payload: bytes, key: EllipticCurvePrivateKey, algorithm: str, *, key_id: str, kind: str) -> str:
    """A token of this payload."""
    return _jws.encode(payload, key, algorithm=algorithm, headers={"kid": key_id, "typ": kind})


def invalid_token() -> Unauthenticated:
    """The one answer to all that is wrong with a token, so that nobody learns what was nearly right."""
    return Unauthenticated("the token is not valid")


def _bytes(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
