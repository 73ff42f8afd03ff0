"""The part of the tree that is about tokens, and about those who issue them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from .kinds import SECONDS, Within


class TokenMode(StrEnum):
    """Whose bearer tokens are accepted."""

    INTERNAL = "internal"
    """Those that the server issues itself."""

    EXTERNAL = "external"
    """Those of the providers in `oidc.providers`; the server issues none."""

    MIXED = "mixed"
    """Both."""


@dataclass(frozen=True, slots=True)
class TokensSettings:
    """Bearer tokens, with which the catalog and the administration are used besides signatures."""

    mode: TokenMode = TokenMode.INTERNAL
    issuer: str = "lakebed"
    """What the server's own tokens say of who issued them and whom they are for."""

    lifetime: Annotated[float, SECONDS, Within(60, 86_400)] = 3_600.0
    """How long a token is good."""

    renewal: Annotated[float, SECONDS, Within(60)] = 30 * 86_400.0
    """How long after the secret was shown tokens are exchanged for fresh ones without it."""

    key_rotation: Annotated[float, SECONDS, Within(60)] = 30 * 86_400.0
    """How old the key that signs them becomes."""


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """A provider of identities whose tokens are accepted."""

    issuer: str = ""
    """Its URL; what it serves under `/.well-known/openid-configuration` says where its keys are."""

    audiences: tuple[str, ...] = ()
    """What its tokens for this server say they are for: one of these."""

    name_claim: str = "preferred_username"
    """Where the name of the user is in the claims, when a subject comes for the first time. Levels of nested objects
    have slashes between them; a name with a slash stands in double quotes."""

    roles_claim: str = ""
    """Where the roles are. Empty: those that the user holds here are activated."""

    roles_filter: str = ""
    """A regular expression; only roles that match it as a whole are looked at."""

    roles_mappings: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions and what is put in place of what matches, in order: what comes out as `PRINCIPAL_ROLE:NAME`
    is a role, all else is none."""

    create_users: bool = False
    """Make a user of every subject that comes for the first time."""

    ca_bundle: Path | None = None
    """Certificates of the authorities that vouch for the provider, in place of the system's."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Providers of identities."""

    providers: Mapping[str, OidcProvider] = field(default_factory=dict)
    """By names of your choice: `[oidc.providers.NAME]`."""

    allow_http: bool = False
    """Take keys from providers by plain HTTP, beyond this machine too."""
