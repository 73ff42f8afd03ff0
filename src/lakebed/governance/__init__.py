"""Identity and access management: principals, credentials, policies, grants and the authorizer."""

from .authorizer import PolicyAuthorizer
from .credentials.access_keys import AccessKeys
from .credentials.lookup import CredentialLookup
from .credentials.master_key_fingerprints import verify_master_keys
from .credentials.sessions import Sessions, TemporaryKey
from .credentials.vault import MasterKeys, Vault
from .model import AccessKey, NewAccessKey, User, UserPolicy
from .policy_language.bucket_policy import check_bucket_policy, is_public
from .policy_language.canned import CANNED_POLICIES
from .policy_language.identity_policy import check_identity_policy
from .principals import Principals

__all__ = [
    "CANNED_POLICIES",
    "AccessKey",
    "AccessKeys",
    "CredentialLookup",
    "MasterKeys",
    "NewAccessKey",
    "PolicyAuthorizer",
    "Principals",
    "Sessions",
    "TemporaryKey",
    "User",
    "UserPolicy",
    "Vault",
    "check_bucket_policy",
    "check_identity_policy",
    "is_public",
    "verify_master_keys",
]
