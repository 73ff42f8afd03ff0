"""The signing keys of an identity provider, found by discovery and cached.

Providers rotate keys without notice. A token with an unknown key id triggers a refresh, at most once per 30 s. If the
provider does not respond, cached keys remain valid for one day; then its tokens are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError, Unavailable
from lakebed.net.http import Http, HttpRequest, send_with_retries

from ..tokens.jws import PublicKey

_T = TypeVar("_T")

log = logging.getLogger("lakebed.oidc")

FRESH_SECONDS: Final = 3600.0
"""Age at which cached keys are refreshed."""

STALE_SECONDS: Final = 86_400.0
"""Maximum age of keys while the provider does not respond."""

PAUSE_SECONDS: Final = 30.0
"""Minimum interval between failed refreshes, and between refreshes for unknown key ids."""

MIN_RSA_BITS: Final = 2048
_TIMEOUT_SECONDS: Final = 10.0
_TRIES: Final = 2
_MAX_KEYS: Final = 100
_DISCOVERY: Final = "/.well-known/openid-configuration"

_KEY_TYPES: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}
"""Key type, and curve if any, by algorithm. Shared secrets (`oct`) are never valid."""


class _Configuration(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]  # Any: members differ with the type of key


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A verification key for one algorithm."""

    id: str
    algorithm: str
    key: PublicKey
    published: bytes
    """The key as published; changes when the provider changes it."""


class ProviderKeys:
    """The keys of one provider."""

    def __init__(self, http: Http, clock: Clock, issuer: str) -> None:
        self._http = http
        self._clock = clock
        self._issuer = issuer
        self._keys: list[dict[str, Any]] = []
        self._fetched: float | None = None
        self._tried: float | None = None
        self._missed: float | None = None
        self._refreshes = 0
        self._refresh_lock = asyncio.Lock()
        self._parsed: dict[tuple[bytes, str], ProviderKey | None] = {}

    async def find(self, key_id: str, algorithm: str) -> ProviderKey | None:
        """The key for a token's key id and algorithm. Without an id, the only key for the algorithm.

        Raises Unavailable if no valid keys are cached and the provider does not respond.
        """
        if self._age() > FRESH_SECONDS:
            await self._refresh(self._is_due(self._tried))
        found = self._lookup(key_id, algorithm)
        if found is None and self._is_due(self._missed):
            # Its own interval: a provider can rotate keys just after a regular refresh.
            self._missed = self._clock.monotonic()
            await self._refresh(True)
            found = self._lookup(key_id, algorithm)
        return found

    def _is_due(self, last: float | None) -> bool:
        return last is None or self._clock.monotonic() - last >= PAUSE_SECONDS

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._clock.monotonic() - self._fetched

    def _lookup(self, key_id: str, algorithm: str) -> ProviderKey | None:
        matching = [key for key in self._keys if _matches(key, key_id, algorithm)]
        if len(matching) != 1:
            return None
        published = msgspec.json.encode(matching[0], order="sorted")
        if (published, algorithm) not in self._parsed:
            self._parsed[published, algorithm] = _parse_key(matching[0], algorithm, published)
        return self._parsed[published, algorithm]

    async def _refresh(self, is_due: bool) -> None:
        """Fetch the keys if due; concurrent calls share one fetch. Raises Unavailable if cached keys are too old."""
        refreshes = self._refreshes
        failure: LakebedError | None = None
        async with self._refresh_lock:
            if is_due and refreshes == self._refreshes:
                self._refreshes += 1
                self._tried = self._clock.monotonic()
                try:
                    self._keys = await self._fetch()
                except LakebedError as error:
                    extra = {"issuer": self._issuer}
                    log.warning("fetching the keys of an identity provider failed", extra=extra, exc_info=error)
                    failure = error
                else:
                    self._parsed.clear()
                    self._fetched = self._clock.monotonic()
        if self._age() > STALE_SECONDS:
            raise Unavailable("the identity provider does not respond") from failure

    async def _fetch(self) -> list[dict[str, Any]]:
        configuration = await self._get(self._issuer.rstrip("/") + _DISCOVERY, _Configuration)
        if configuration.issuer != self._issuer:
            # OpenID Connect Discovery 1.0 §4.3: otherwise one provider could impersonate another.
            raise Unavailable(f"the identity provider's configuration has another issuer. expected={self._issuer}")
        parts = urlsplit(configuration.jwks_uri)
        if parts.scheme != "https" and (parts.scheme != "http" or urlsplit(self._issuer).scheme != "http"):
            raise Unavailable("the identity provider's jwks_uri is not HTTPS, unlike its issuer")
        return (await self._get(configuration.jwks_uri, _KeySet)).keys[:_MAX_KEYS]

    async def _get(self, url: str, kind: type[_T]) -> _T:
        request = HttpRequest(
            "GET", url, {"accept": "application/json"}, timeout_seconds=_TIMEOUT_SECONDS, through_proxy=True
        )
        response = await send_with_retries(self._http, request, tries=_TRIES, service="the identity provider")
        if response.status != 200:
            raise Unavailable(f"the identity provider responded with {response.status}. path={urlsplit(url).path}")
        try:
            return msgspec.json.decode(response.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unavailable(f"invalid response of the identity provider. path={urlsplit(url).path}") from error


def _matches(key: Mapping[str, object], key_id: str, algorithm: str) -> bool:
    kind, curve = _KEY_TYPES[algorithm]
    operations = key.get("key_ops")
    return (
        (not key_id or key.get("kid") == key_id)
        and key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
        and key.get("alg", algorithm) == algorithm
    )


def _parse_key(published: dict[str, Any], algorithm: str, encoded: bytes) -> ProviderKey | None:
    try:
        key = PyJWK(published, algorithm=algorithm).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        return None
    if not hasattr(key, "verify"):
        # A private key, published by mistake, or a shared secret.
        return None
    kid = published.get("kid")
    return ProviderKey(kid if isinstance(kid, str) else "", algorithm, key, encoded)
