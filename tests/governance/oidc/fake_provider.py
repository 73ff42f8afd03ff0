"""A fake identity provider, with behaviour that a real one cannot show on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.core.secrets import Secret
from lakebed.net.http import HttpRequest, HttpResponse

ISSUER = "https://id.example/realms/lake"
AUDIENCE = "lakebed"
_RSA = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
"""Created once: key generation is slow."""


@dataclass
class FakeProvider:
    """Its keys, and the URLs requested from it."""

    clock: ManualClock
    issuer: str = ISSUER
    named: str | None = None
    """The issuer in its configuration, if another."""
    jwks_uri: str = f"{ISSUER}/keys"
    private: dict[str, Any] = field(default_factory=lambda: {"one": _RSA[0]})  # Any: keys of several kinds
    published: list[dict[str, Any]] | None = None
    """Replaces its published keys."""
    is_down: bool = False
    requested: list[str] = field(default_factory=list)

    async def http(self, request: HttpRequest) -> HttpResponse:
        """Serves its HTTP requests."""
        self.requested.append(request.url)
        if self.is_down:
            raise Unavailable("no answer")
        if request.url == f"{self.issuer}/.well-known/openid-configuration":
            return _json({"issuer": self.named or self.issuer, "jwks_uri": self.jwks_uri})
        if request.url == self.jwks_uri:
            return _json({"keys": self.keys()})
        return HttpResponse(404, b"")

    def keys(self) -> list[dict[str, Any]]:
        if self.published is not None:
            return self.published
        return [public_jwk(key, kid) for kid, key in self.private.items()]

    def rotate(self) -> None:
        """Replace the current key."""
        self.private = {"two": _RSA[1]}

    def claims(self, **more: object) -> dict[str, object]:
        now = self.clock.now_ms() // 1000
        return {
            "iss": self.issuer,
            "aud": [AUDIENCE, "another"],
            "sub": "subject-1",
            "preferred_username": "ada",
            "iat": now,
            "exp": now + 600,
            **more,
        }

    def token(
        self,
        claims: Mapping[str, object] | None = None,
        *,
        key: Any = None,
        kid: str | None = "",
        algorithm: str = "RS256",
        **more: object,
    ) -> Secret:
        """A token with changed claims, signed by the current key by default. None removes a claim."""
        payload = dict(claims) if claims is not None else self.claims(**more)
        payload = {name: value for name, value in payload.items() if value is not None}
        present = next(iter(self.private)) if kid == "" else kid
        headers = {} if present is None else {"kid": present}
        signing = key if key is not None else next(iter(self.private.values()))
        return Secret(jwt.PyJWS().encode(json.dumps(payload).encode(), signing, algorithm=algorithm, headers=headers))


def public_jwk(key: Any, kid: str | None) -> dict[str, Any]:  # Any: keys of several kinds
    """A public key as JWK."""
    public = key.public_key()
    algorithm_class = ECAlgorithm if isinstance(public, ec.EllipticCurvePublicKey) else RSAAlgorithm
    document: dict[str, Any] = algorithm_class.to_jwk(public, as_dict=True)
    return {**document, "use": "sig"} | ({} if kid is None else {"kid": kid})


def _json(document: object) -> HttpResponse:
    return HttpResponse(200, json.dumps(document).encode())
