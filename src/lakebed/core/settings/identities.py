"""Settings of bearer tokens and identity providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from .kinds import SECONDS, Within


class TokenMode(StrEnum):
    """Accepted bearer tokens, by issuer."""

    INTERNAL = "internal"
    """Tokens that the server issues."""

    EXTERNAL = "external"
    """Tokens of the providers in `oidc.providers`; the server issues none."""

    MIXED = "mixed"
    """Both."""


@dataclass(frozen=True, slots=True)
class TokensSettings:
    """Bearer tokens of the catalog, management and administration APIs."""

    mode: TokenMode = TokenMode.INTERNAL
    issuer: str = "lakebed"
    """Issuer and audience of the server's own tokens."""

    lifetime: Annotated[float, SECONDS, Within(60, 86_400)] = 3_600.0
    """Lifetime of a token."""

    renewal: Annotated[float, SECONDS, Within(60)] = 30 * 86_400.0
    """How long tokens can be exchanged without the secret after authentication."""

    key_rotation: Annotated[float, SECONDS, Within(60)] = 30 * 86_400.0
    """Maximum age of the signing key."""


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """An OpenID Connect provider whose tokens are accepted."""

    issuer: str = ""
    """Issuer URL; its `/.well-known/openid-configuration` leads to its keys."""

    audiences: tuple[str, ...] = ()
    """Accepted audiences of its tokens."""

    name_claim: str = "preferred_username"
    """Path of the claim with the user name, read from the first token of a subject. Slashes separate the levels of
    nested claims; a name with a slash is in double quotes."""

    roles_claim: str = ""
    """Path of the claim with the roles. Empty: all roles that the user has on this server are activated."""

    roles_filter: str = ""
    """A regular expression; roles that do not match it as a whole are ignored."""

    roles_mappings: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions and their replacements, applied in order. Results of the form `PRINCIPAL_ROLE:NAME` are
    roles, others are ignored."""

    create_users: bool = False
    """Create a user for each new subject."""

    ca_bundle: Path | None = None
    """CA certificates for the provider, in place of the system's."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Identity providers."""

    providers: Mapping[str, OidcProvider] = field(default_factory=dict)
    """By name: `[oidc.providers.NAME]`."""

    allow_http: bool = False
    """Allow plain HTTP to providers on other machines."""
