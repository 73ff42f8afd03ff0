"""Verifies tokens of identity providers (signature, issuer, audience, times) and finds their principals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from lakebed.core.access import ActivatedRoles, Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import CredentialsExpired
from lakebed.core.secrets import Secret

from ..rbac.caller_grants import CallerGrants
from ..tokens.jws import invalid_token, read_unverified, verified_payload
from ..validated_cache import ValidatedCache
from .claim_paths import ClaimPath
from .external_identities import ExternalIdentities, UserProvisioning
from .provider_keys import ProviderKey, ProviderKeys
from .role_mapping import RoleMapping

LEEWAY_SECONDS: Final = 60
"""Allowed clock difference."""

_MAX_SUBJECT_CHARS: Final = 255
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class TokenProvider:
    """How tokens of a provider are verified and mapped."""

    issuer: str
    audiences: frozenset[str]
    """A token must have one of them."""
    name_claim: ClaimPath
    roles: RoleMapping
    creates_users: bool


class ProviderTokens:
    """Verifies the tokens of one provider."""

    def __init__(
        self,
        provider: TokenProvider,
        keys: ProviderKeys,
        identities: ExternalIdentities,
        grants: CallerGrants,
        clock: Clock,
    ) -> None:
        self._provider = provider
        self._keys = keys
        self._identities = identities
        self._clock = clock
        self._grants = grants
        self._verified: ValidatedCache[ProviderKey, Mapping[str, Any]] = ValidatedCache(4096)

    async def principal(self, token: Secret) -> Principal:
        """The principal.

        Raises Unauthenticated, CredentialsExpired, CredentialsRevoked; Unavailable if the provider's keys are unknown
        and it does not respond.
        """
        provider = self._provider
        claims = await self._claims(token.reveal())
        self._check(claims)
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or "\0" in subject:
            raise invalid_token()
        provisioning = UserProvisioning(provider.name_claim.find_text(claims), provider.creates_users)
        identified = await self._identities.caller(provider.issuer, subject, provisioning)
        caller = identified.principal
        roles = provider.roles.scope(claims).roles
        grants = await self._grants.of(caller.name, identified.number, roles)
        return replace(caller, grants=grants, activated=None if roles is None else ActivatedRoles(roles, True))

    async def _claims(self, text: str) -> Mapping[str, Any]:
        header = read_unverified(text).header
        key = await self._keys.find(header.kid, header.alg)
        if key is None:
            raise invalid_token()
        cached = self._verified.get(text, key)
        if cached is not None:
            return cached
        payload = verified_payload(text, key.key, key.algorithm)
        try:
            return self._verified.put(text, key, _decode(payload))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise invalid_token() from error

    def _check(self, claims: Mapping[str, Any]) -> None:
        if claims.get("iss") != self._provider.issuer:
            raise invalid_token()
        claimed = claims.get("aud")
        audiences = claimed if isinstance(claimed, list) else [claimed]
        if not any(isinstance(audience, str) and audience in self._provider.audiences for audience in audiences):
            raise invalid_token()
        now = self._clock.now_ms() / 1000
        expires, begins, issued = (_time(claims.get(name)) for name in ("exp", "nbf", "iat"))
        if expires is None or (begins is not None and begins > now + LEEWAY_SECONDS):
            raise invalid_token()
        if issued is not None and issued > now + LEEWAY_SECONDS:
            raise invalid_token()
        if now >= expires + LEEWAY_SECONDS:
            raise CredentialsExpired("the token has expired")


def _time(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid_token()
    return float(value)
