"""Tokens of other providers of identities: their keys by discovery, their claims as users and roles of this server."""

from .claim_paths import ClaimPath
from .identities import ExternalIdentities
from .provider_keys import ProviderKeys
from .role_mapping import RoleMapping
from .verifying import Provider, ProviderTokens

__all__ = [
    "ClaimPath",
    "ExternalIdentities",
    "Provider",
    "ProviderKeys",
    "ProviderTokens",
    "RoleMapping",
]
