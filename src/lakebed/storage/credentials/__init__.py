"""Credentials for other people's stores: where they come from, in which order, and how they stay good.

Nothing here knows of a client library. Providers see the machine through `Surroundings` only.
"""

from .chain import CredentialChain, default_chain
from .model import CredentialProvider, Credentials, CredentialSource
from .refresh import RefreshingCredentials
from .surroundings import Surroundings

__all__ = [
    "CredentialChain",
    "CredentialProvider",
    "CredentialSource",
    "Credentials",
    "RefreshingCredentials",
    "Surroundings",
    "default_chain",
]
