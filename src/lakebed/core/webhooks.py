"""Signs and verifies webhooks by the Standard Webhooks specification. Pure.

The signature is HMAC-SHA256 over `ID.TIMESTAMP.BODY`, in three headers:

    webhook-id          the same for every delivery attempt of a message
    webhook-timestamp   when this attempt was signed, in seconds since the epoch
    webhook-signature   `v1,BASE64`; several, separated by blanks, during a secret rotation

A secret is `whsec_` and the base64 of 24 to 64 bytes. Receivers check the signature and that the timestamp is recent,
which rejects replayed messages.
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
    """The id and time of a verified message."""

    id: str
    timestamp: int


def new_secret(entropy: Callable[[int], bytes] = os.urandom) -> Secret:
    """A fresh secret."""
    return Secret(_PREFIX + base64.b64encode(entropy(_NEW_BYTES)).decode())


def check_secret(secret: Secret) -> None:
    """Raise InvalidInput for a malformed secret."""
    _key(secret)


def signed_headers(secret: Secret, message_id: str, now_ms: int, body: bytes) -> dict[str, str]:
    """The headers of a message sent now."""
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
    """Verify that the message was signed with one of the secrets, recently. Raises Unauthenticated.

    Header names may be in any case. Several secrets serve a rotation.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, stated, signatures = (given[name] for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    except KeyError as error:
        raise Unauthenticated(f"unsigned message: missing header {error.args[0]}") from None
    if not (stated.isascii() and stated.isdigit() and len(stated) <= _MAX_DIGITS):
        raise Unauthenticated(f"invalid {TIMESTAMP_HEADER}: expected seconds since the epoch")
    timestamp = int(stated)
    is_good = False
    for secret in secrets:
        expected = _mac(_key(secret), message_id, timestamp, body)
        for signature in signatures.split(" ")[:_MAX_SIGNATURES]:
            version, _, encoded = signature.partition(",")
            is_good |= version == _VERSION and hmac.compare_digest(_decoded(encoded), expected)
    if not is_good:
        raise Unauthenticated("signature mismatch: the message was changed, or signed with another secret")
    # After the signature, so that unsigned requests learn nothing of this clock.
    if abs(now_ms // 1000 - timestamp) > tolerance_seconds:
        raise Unauthenticated(f"message timestamp outside the tolerance. timestamp={timestamp}")
    return Verified(message_id, timestamp)


def _mac(key: bytes, message_id: str, timestamp: int, body: bytes) -> bytes:
    # Header bytes that are not UTF-8 are signed as received.
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
