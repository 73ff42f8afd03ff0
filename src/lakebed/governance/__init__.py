"""Who may do what: principals and their keys, policies, and the one authorizer that decides."""

from .access_keys import AccessKeys
from .authorizer import PolicyAuthorizer
from .bucket_policy import check_bucket_policy, is_public
from .canned import CANNED_POLICIES
from .credentials import Credentials
from .identity_policy import check_identity_policy
from .model import AccessKey, NewAccessKey, User, UserPolicy
from .principals import Principals
from .recorded_keys import confirm_master_keys
from .sessions import Sessions, TemporaryKey
from .vault import MasterKeys, Vault

__all__ = [
    "CANNED_POLICIES",
    "AccessKey",
    "AccessKeys",
    "Credentials",
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
    "confirm_master_keys",
    "is_public",
]
