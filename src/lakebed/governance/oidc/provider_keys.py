"""The keys of a provider: found by discovery, kept for a while, fetched again when one is unknown.

A provider changes its keys without a word. A token that names a key we do not know has the keys fetched once more, but
not oftener than every half minute, however many such tokens come. When the provider does not answer, the keys that are
known serve for a day, and after that nobody gets in whom it would have to vouch for.
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
"""How long keys are taken without a look whether there are others by now."""

STALE_SECONDS: Final = 86_400.0
"""How long they are taken at most when there is no answer."""

PAUSE_SECONDS: Final = 30.0
"""Between two looks that were in vain, or for keys that are unknown."""

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
"""The type, and for curves which one, of the keys of each algorithm. A shared secret (`oct`) is of none."""


class _Configuration(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]  # Any: members differ with the type of key


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """One key, for one algorithm."""

    id: str
    algorithm: str
    key: PublicKey
    published: bytes
    """As the provider spells it: what tells whether it is still the same."""


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
        self._looks = 0
        self._turn = asyncio.Lock()
        self._made: dict[tuple[bytes, str], ProviderKey | None] = {}

    async def find(self, key_id: str, algorithm: str) -> ProviderKey | None:
        """The key that a token names, if it is for that algorithm. Without a name, the only one that could be meant.

        Raises Unavailable when no keys are known and the provider does not answer.
        """
        if self._age() > FRESH_SECONDS:
            await self._refresh(self._is_due(self._tried))
        found = self._lookup(key_id, algorithm)
        if found is None and self._is_due(self._missed):
            # Kept apart from other looks: a provider may change its keys just after one.
            self._missed = self._clock.monotonic()
            await self._refresh(True)
            found = self._lookup(key_id, algorithm)
        return found

    def _is_due(self, last: float | None) -> bool:
        return last is None or self._clock.monotonic() - last >= PAUSE_SECONDS

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._clock.monotonic() - self._fetched

    def _lookup(self, key_id: str, algorithm: str) -> ProviderKey | None:
        fitting = [key for key in self._keys if _fits(key, key_id, algorithm)]
        if len(fitting) != 1:
            return None
        published = msgspec.json.encode(fitting[0], order="sorted")
        if (published, algorithm) not in self._made:
            self._made[published, algorithm] = _made_of(fitting[0], algorithm, published)
        return self._made[published, algorithm]

    async def _refresh(self, is_due: bool) -> None:
        """Fetch the keys, if that is due and nobody else does meanwhile.

        Raises Unavailable when there are none that can be used.
        """
        looks = self._looks
        failure: LakebedError | None = None
        async with self._turn:
            if is_due and looks == self._looks:
                self._looks += 1
                self._tried = self._clock.monotonic()
                try:
                    self._keys = await self._fetch()
                except LakebedError as error:
                    facts = {"issuer": self._issuer}
                    log.warning("the keys of a provider could not be fetched", extra=facts, exc_info=error)
                    failure = error
                else:
                    self._made.clear()
                    self._fetched = self._clock.monotonic()
        if self._age() > STALE_SECONDS:
            raise Unavailable("the provider of identities does not answer") from failure

    async def _fetch(self) -> list[dict[str, Any]]:
        configuration = await self._get(self._issuer.rstrip("/") + _DISCOVERY, _Configuration)
        if configuration.issuer != self._issuer:
            # OpenID Connect Discovery 1.0 §4.3: otherwise one provider could speak for another.
            raise Unavailable(f"the provider calls itself otherwise. expected={self._issuer}")
        parts = urlsplit(configuration.jwks_uri)
        if parts.scheme != "https" and (parts.scheme != "http" or urlsplit(self._issuer).scheme != "http"):
            raise Unavailable("the provider publishes its keys where they could be changed on the way")
        return (await self._get(configuration.jwks_uri, _KeySet)).keys[:_MAX_KEYS]

    async def _get(self, url: str, kind: type[_T]) -> _T:
        request = HttpRequest(
            "GET", url, {"accept": "application/json"}, timeout_seconds=_TIMEOUT_SECONDS, through_proxy=True
        )
        answer = await send_with_retries(self._http, request, tries=_TRIES, service="the provider of identities")
        if answer.status != 200:
            raise Unavailable(f"the provider of identities answered {answer.status}. path={urlsplit(url).path}")
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unavailable(f"the provider's answer cannot be read. path={urlsplit(url).path}") from error


def _fits(key: Mapping[str, object], key_id: str, algorithm: str) -> bool:
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


def _made_of(published: dict[str, Any], algorithm: str, spelled: bytes) -> ProviderKey | None:
    try:
        key = PyJWK(published, algorithm=algorithm).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        return None
    if not hasattr(key, "verify"):
        # A private key, which whoever published it should know of; or a shared one.
        return None
    kid = published.get("kid")
    return ProviderKey(kid if isinstance(kid, str) else "", algorithm, key, spelled)
