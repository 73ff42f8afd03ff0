"""Role-based access control: privileges of catalog roles, which are assigned to principal roles, and these to users.

A grant allows; nothing here denies. The authorizer evaluates the grants (ADR 16).
"""

from .caller_grants import GrantSet
from .operations import OPERATIONS, RequiredPrivileges, action_privileges, commit_privileges
from .privileges import GRANTABLE, INCLUDES, GrantKind, Privilege
from .securables import SERVICE, catalog_securable, entry_securable, namespace_securable, policy_securable

__all__ = [
    "GRANTABLE",
    "INCLUDES",
    "OPERATIONS",
    "SERVICE",
    "GrantKind",
    "GrantSet",
    "Privilege",
    "RequiredPrivileges",
    "action_privileges",
    "catalog_securable",
    "commit_privileges",
    "entry_securable",
    "namespace_securable",
    "policy_securable",
]
