"""Forged tokens, and tokens for other servers, are a 401 without details on every API that accepts tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lakebed.core.secrets import Secret
from tests.governance.tokens.forging import es256, hs256, parts, with_signature

from .site import Site

PATHS = (
    "/iceberg/v1/config",
    "/api/catalog/v1/lake/namespaces",
    "/polaris/v1/lake/applicable-policies",
    "/lakebed/v1/tasks",
)

Header = dict[str, Any]
Forge = Callable[[Header, dict[str, Any], ec.EllipticCurvePrivateKey], Secret]
"""Forges a token from the header and claims of a valid one, and the signing key of the server."""


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


FORGED: dict[str, Forge] = {
    "no signature": lambda header, claims, _: with_signature({**header, "alg": "none"}, claims, b""),
    "no signature, in mixed case": lambda header, claims, _: with_signature({**header, "alg": "nOnE"}, claims, b""),
    "a mac with the public key": lambda header, claims, key: hs256({**header, "alg": "HS256"}, claims, _public(key)),
    "a mac with an empty key": lambda header, claims, _: hs256({**header, "alg": "HS256"}, claims, b""),
    "a foreign key": lambda header, claims, _: es256(header, claims, ec.generate_private_key(ec.SECP256R1())),
    "another key's id": lambda header, claims, key: es256({**header, "kid": "another"}, claims, key),
    "another audience": lambda header, claims, key: es256(header, {**claims, "aud": "another"}, key),
    "another issuer": lambda header, claims, key: es256(header, {**claims, "iss": "https://evil.test"}, key),
    "expired": lambda header, claims, key: es256(header, {**claims, "exp": claims["iat"] - 1}, key),
    "not yet valid": lambda header, claims, key: es256(header, {**claims, "nbf": claims["exp"] - 1}, key),
    "unknown subject": lambda header, claims, key: es256(header, {**claims, "sub": "unknown"}, key),
    "no expiry": lambda header, claims, key: es256(header, {k: v for k, v in claims.items() if k != "exp"}, key),
}


@pytest.mark.parametrize("forgery", FORGED)
async def test_forged_token_is_refused_by_every_api(site: Site, forgery: str) -> None:
    valid = await site.token()
    header, claims = parts(Secret(valid))
    key = (await site.tokens.keys.signer()).private
    forged = FORGED[forgery](header, claims, key).reveal()
    for path in PATHS:
        assert (await site.call("GET", path, valid)).status == 200
        refused = await site.call("GET", path, forged)
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Bearer ")
        assert forged not in refused.body.decode()
        assert "signature" not in refused.document["error"]["message"]


async def test_resigned_valid_token_is_accepted(site: Site) -> None:
    """So the forged tokens are refused for their changes."""
    header, claims = parts(Secret(await site.token()))
    resigned = es256(header, claims, (await site.tokens.keys.signer()).private)
    assert (await site.call("GET", PATHS[0], resigned.reveal())).status == 200
