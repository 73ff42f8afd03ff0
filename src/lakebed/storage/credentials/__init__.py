"""AWS credentials for external stores: sources, their order, and refresh.

Independent of any client library. Sources access the machine only through `HostEnvironment`.
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
