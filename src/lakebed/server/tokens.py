"""Wires bearer tokens: clients, signing keys, the token endpoint, and identity providers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lakebed.core.access import Credential
from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.core.settings import OidcProvider, Settings, TokenMode
from lakebed.governance.credentials.access_keys import AccessKeys
from lakebed.governance.credentials.bearer_tokens import BearerTokens, PrincipalResolver
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.oidc import (
    ClaimPath,
    ExternalIdentities,
    ProviderKeys,
    ProviderTokens,
    RoleMapping,
    TokenProvider,
)
from lakebed.governance.principals import Principals
from lakebed.governance.rbac.caller_grants import CallerGrants
from lakebed.governance.tokens import (
    ClientAuthenticator,
    ClientCredentialStore,
    LoginThrottle,
    SecretHasher,
    TokenIssuer,
    TokenSigningKeys,
    TokenVerifier,
)
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.net.http import Http
from lakebed.net.sync_client import threaded_http
from lakebed.wire.audit.refusals import OnRefusal
from lakebed.wire.json.app import Observe
from lakebed.wire.oauth.app import TokenApplication

PROVIDERS_AT_ONCE: Final = 4
"""Concurrent requests to identity providers per process."""


@dataclass(frozen=True, slots=True)
class TokenServices:
    """The token services that other parts of the server use."""

    application: TokenApplication
    bearers: BearerTokens
    clients: ClientCredentialStore
    keys: TokenSigningKeys


def wire_tokens(
    settings: Settings,
    meta: MetaStore,
    outbox: Outbox,
    master: MasterKeys,
    clock: Clock,
    access_keys: AccessKeys,
    root: Credential,
    observe: Observe | None = None,
    http: Http | None = None,
    on_refusal: OnRefusal | None = None,
) -> TokenServices:
    """Token services by the settings. Raises InvalidSetting. `http` sends requests to identity providers."""
    own = settings.tokens
    hashes = SecretHasher()
    keys = TokenSigningKeys(meta, outbox, master, clock, root.principal)
    verifier = TokenVerifier(meta, access_keys, master, clock, issuer=own.issuer)
    issuer = TokenIssuer(
        keys,
        verifier,
        clock,
        issuer=own.issuer,
        lifetime_seconds=int(own.lifetime),
        renewal_seconds=int(own.renewal),
    )
    sources: dict[str, PrincipalResolver] = {}
    if own.mode is not TokenMode.EXTERNAL:
        sources[own.issuer] = verifier
    if settings.oidc.providers:
        identities = ExternalIdentities(meta, outbox, Principals(meta, outbox, clock, root.principal), clock)
        grants = CallerGrants(meta, federated=True)
        # Separate threads: an unavailable provider must not block other requests.
        threads = ThreadPoolExecutor(PROVIDERS_AT_ONCE, thread_name_prefix="oidc")
        for name, stated in settings.oidc.providers.items():
            provider = read_provider(f"oidc.providers.{name}", stated)
            bundle = None if stated.ca_bundle is None else str(stated.ca_bundle)
            published = ProviderKeys(http or threaded_http(bundle, threads), clock, provider.issuer)
            sources[provider.issuer] = ProviderTokens(provider, published, identities, grants, clock)
    return TokenServices(
        TokenApplication(
            ClientAuthenticator(meta, access_keys, hashes, LoginThrottle(clock), master),
            issuer,
            keys,
            clock=clock,
            issues=own.mode is not TokenMode.EXTERNAL,
            observe=observe,
            on_refusal=on_refusal,
        ),
        BearerTokens(sources),
        ClientCredentialStore(meta, outbox, hashes, clock, root.principal, root.access_key_id),
        keys,
    )


def read_provider(path: str, stated: OidcProvider) -> TokenProvider:
    """A provider of the settings, with parsed claim paths and expressions. Raises InvalidSetting with its path."""
    try:
        name_claim = ClaimPath.parse(stated.name_claim)
    except InvalidInput as error:
        raise InvalidSetting(f"{path}.name_claim: {error}", argument=f"{path}.name_claim") from error
    try:
        roles = RoleMapping.of(stated.roles_claim, stated.roles_filter, stated.roles_mappings)
    except InvalidInput as error:
        raise InvalidSetting(f"{path}: roles: {error}", argument=path) from error
    return TokenProvider(stated.issuer, frozenset(stated.audiences), name_claim, roles, stated.create_users)
