"""Bearer tokens: asked for with client credentials, signed by the server, ended with what they were given for."""

from .client_credentials import ClientCredentials
from .clients import Clients
from .issuance import TokenIssuer
from .login_throttle import Attempts
from .model import Client, ClientPair, FreshSecret, IssuedToken, NewCredentials
from .scopes import EVERY_ROLE, RoleScope, parse_scope
from .secret_hashes import SecretHashes
from .session_principals import LastingIdentities
from .signing_keys import SigningKeys, TokenKey
from .verification import TokenVerifier, VerifiedToken

__all__ = [
    "EVERY_ROLE",
    "Attempts",
    "Client",
    "ClientCredentials",
    "ClientPair",
    "Clients",
    "FreshSecret",
    "IssuedToken",
    "LastingIdentities",
    "NewCredentials",
    "RoleScope",
    "SecretHashes",
    "SigningKeys",
    "TokenIssuer",
    "TokenKey",
    "TokenVerifier",
    "VerifiedToken",
    "parse_scope",
]
