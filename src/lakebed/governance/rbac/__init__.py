"""Roles and grants: privileges that catalog roles hold, principal roles that hold catalog roles, users that hold those.

A grant allows; nothing here denies. Who asks is always the one authorizer (ADR 16).
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
