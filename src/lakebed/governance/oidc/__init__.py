"""External identity providers (OpenID Connect): key discovery, token verification, user provisioning, role mapping."""

from .claim_paths import ClaimPath
from .external_identities import ExternalIdentities
from .provider_keys import ProviderKeys
from .provider_tokens import ProviderTokens, TokenProvider
from .role_mapping import RoleMapping

__all__ = [
    "ClaimPath",
    "ExternalIdentities",
    "ProviderKeys",
    "ProviderTokens",
    "RoleMapping",
    "TokenProvider",
]
