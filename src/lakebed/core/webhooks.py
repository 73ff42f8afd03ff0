"""Signed messages over HTTP: how the server signs what it posts to others, and how they verify it. Pure.

The scheme is that of Standard Webhooks, for which there are libraries in many languages. Three headers go with a
message; the signature is HMAC-SHA256 over `ID.TIMESTAMP.BODY`:

    webhook-id          the same for every attempt to deliver the same message
    webhook-timestamp   when this attempt was signed, in seconds since the epoch
    webhook-signature   `v1,BASE64`, several with blanks between them while a secret is being changed

A secret is `whsec_` and the base64 of 24 to 64 bytes. Whoever takes messages checks the signature, and that the
timestamp is of now: an old message that somebody kept and sends again is refused, and cannot be signed anew.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from .errors import InvalidInput, Unauthenticated
from .secrets import Secret

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"

TOLERANCE_SECONDS: Final = 300
"""How far a timestamp may be from now, either way."""

_PREFIX: Final = "whsec_"
_VERSION: Final = "v1"
_MIN_BYTES: Final = 24
_MAX_BYTES: Final = 64
_NEW_BYTES: Final = 32
_MAX_SIGNATURES: Final = 16
_MAX_DIGITS: Final = 12


class Verified(NamedTuple):
    """What is known of a message that is what was sent."""

    id: str
    timestamp: int


def new_secret(entropy: Callable[[int], bytes] = os.urandom) -> Secret:
    """A fresh secret."""
    return Secret(_PREFIX + base64.b64encode(entropy(_NEW_BYTES)).decode())


def check_secret(secret: Secret) -> None:
    """Raise InvalidInput unless messages can be signed with it."""
    _key(secret)


def signed_headers(secret: Secret, message_id: str, now_ms: int, body: bytes) -> dict[str, str]:
    """The headers of a message that is sent now."""
    timestamp = now_ms // 1000
    signature = base64.b64encode(_mac(_key(secret), message_id, timestamp, body)).decode()
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: f"{_VERSION},{signature}",
    }


def verify(
    secrets: Sequence[Secret],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_ms: int,
    tolerance_seconds: int = TOLERANCE_SECONDS,
) -> Verified:
    """Return if the message was signed with one of the secrets, not long ago. Raises Unauthenticated.

    `headers` may be in any case. Several secrets are for the time in which one takes the place of another.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, stated, signatures = (given[name] for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    except KeyError as error:
        raise Unauthenticated(f"the message is not signed: {error.args[0]} is missing") from None
    if not (stated.isascii() and stated.isdigit() and len(stated) <= _MAX_DIGITS):
        raise Unauthenticated(f"{TIMESTAMP_HEADER} is no time")
    timestamp = int(stated)
    is_good = False
    for secret in secrets:
        expected = _mac(_key(secret), message_id, timestamp, body)
        for signature in signatures.split(" ")[:_MAX_SIGNATURES]:
            version, _, encoded = signature.partition(",")
            is_good |= version == _VERSION and hmac.compare_digest(_decoded(encoded), expected)
    if not is_good:
        raise Unauthenticated("the signature is not of this message, or not made with this secret")
    # After the signature: who cannot sign learns nothing of our clock.
    if abs(now_ms // 1000 - timestamp) > tolerance_seconds:
        raise Unauthenticated(f"the message was signed too long ago, or is of the future. timestamp={timestamp}")
    return Verified(message_id, timestamp)


def _mac(key: bytes, message_id: str, timestamp: int, body: bytes) -> bytes:
    # What a header carries that is no UTF-8 is taken as it came.
    return hmac.digest(key, f"{message_id}.{timestamp}.".encode(errors="surrogateescape") + body, "sha256")


def _key(secret: Secret) -> bytes:
    text = secret.reveal()
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(_PREFIX) or not _MIN_BYTES <= len(key) <= _MAX_BYTES:
        # Without the cause: it would carry the text.
        raise InvalidInput(
            f"expected {_PREFIX} and base64 of {_MIN_BYTES} to {_MAX_BYTES} bytes; make one: "
            f'echo "{_PREFIX}$(openssl rand -base64 32)"',
            argument="secret",
        )
    return key


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return b""
