"""OAuth 2.0 access tokens: issued for client credentials, signed by the server, verified on every request."""

from .client_credentials import ClientCredentialStore
from .clients import ClientAuthenticator
from .issuance import TokenIssuer
from .login_throttle import LoginThrottle
from .model import AuthenticatedClient, ClientCredentialInfo, HashedSecret, IssuedToken, NewClientCredentials
from .scopes import ALL_ROLES, RoleScope, parse_scope
from .secret_hashes import SecretHasher
from .session_principals import SessionPrincipals
from .signing_keys import TokenKey, TokenSigningKeys
from .verification import TokenVerifier, VerifiedToken

__all__ = [
    "ALL_ROLES",
    "AuthenticatedClient",
    "ClientAuthenticator",
    "ClientCredentialInfo",
    "ClientCredentialStore",
    "HashedSecret",
    "IssuedToken",
    "LoginThrottle",
    "NewClientCredentials",
    "RoleScope",
    "SecretHasher",
    "SessionPrincipals",
    "TokenIssuer",
    "TokenKey",
    "TokenSigningKeys",
    "TokenVerifier",
    "VerifiedToken",
    "parse_scope",
]
