"""Tokens that nobody issued, or not for this, on every edge that takes tokens: 401, and nothing is told of why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lakebed.core.secrets import Secret
from tests.governance.tokens.forging import es256, hs256, parts, with_signature

from .site import Site

EDGES = (
    "/iceberg/v1/config",
    "/api/catalog/v1/lake/namespaces",
    "/polaris/v1/lake/applicable-policies",
    "/lakebed/v1/tasks",
)

Header = dict[str, Any]
Forge = Callable[[Header, dict[str, Any], ec.EllipticCurvePrivateKey], Secret]
"""Makes a token of the header and claims of a good one, and of the key that signs here."""


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


FORGED: dict[str, Forge] = {
    "no signature": lambda header, claims, _: with_signature({**header, "alg": "none"}, claims, b""),
    "no signature, in other letters": lambda header, claims, _: with_signature({**header, "alg": "nOnE"}, claims, b""),
    "a mac with the public key": lambda header, claims, key: hs256({**header, "alg": "HS256"}, claims, _public(key)),
    "a mac with nothing": lambda header, claims, _: hs256({**header, "alg": "HS256"}, claims, b""),
    "the key of somebody": lambda header, claims, _: es256(header, claims, ec.generate_private_key(ec.SECP256R1())),
    "another key's id": lambda header, claims, key: es256({**header, "kid": "another"}, claims, key),
    "another audience": lambda header, claims, key: es256(header, {**claims, "aud": "another"}, key),
    "another issuer": lambda header, claims, key: es256(header, {**claims, "iss": "https://evil.test"}, key),
    "expired": lambda header, claims, key: es256(header, {**claims, "exp": claims["iat"] - 1}, key),
    "not yet good": lambda header, claims, key: es256(header, {**claims, "nbf": claims["exp"] - 1}, key),
    "nobody's": lambda header, claims, key: es256(header, {**claims, "sub": "nobody"}, key),
    "no end": lambda header, claims, key: es256(header, {k: v for k, v in claims.items() if k != "exp"}, key),
}


@pytest.mark.parametrize("what", FORGED)
async def test_forged_token_opens_no_edge(site: Site, what: str) -> None:
    good = await site.token()
    header, claims = parts(Secret(good))
    key = (await site.tokens.keys.signer()).private
    forged = FORGED[what](header, claims, key).reveal()
    for path in EDGES:
        assert (await site.call("GET", path, good)).status == 200
        refused = await site.call("GET", path, forged)
        assert refused.status == 401
        assert refused.headers["www-authenticate"].startswith("Bearer ")
        assert forged not in refused.body.decode()
        assert "signature" not in refused.document["error"]["message"]


async def test_what_the_forger_starts_from_is_good(site: Site) -> None:
    """Signed again as it was, the same is taken: what is refused above is refused for what was changed."""
    header, claims = parts(Secret(await site.token()))
    again = es256(header, claims, (await site.tokens.keys.signer()).private)
    assert (await site.call("GET", EDGES[0], again.reveal())).status == 200
