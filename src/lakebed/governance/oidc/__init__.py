"""Tokens of other providers of identities: their keys by discovery, their claims as users and roles of this server."""

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
