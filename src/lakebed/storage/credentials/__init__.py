"""Credentials for other people's stores: where they come from, in which order, and how they stay good.

Nothing here knows of a client library. Providers see the machine through `HostEnvironment` only.
"""

from .chain import CredentialChain, default_chain
from .host_environment import HostEnvironment
from .model import CredentialProvider, Credentials, CredentialSource
from .refresh import RefreshingCredentials

__all__ = [
    "CredentialChain",
    "CredentialProvider",
    "CredentialSource",
    "Credentials",
    "HostEnvironment",
    "RefreshingCredentials",
    "default_chain",
]
