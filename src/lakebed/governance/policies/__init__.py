"""Table policies: maintenance rules, row filters and column masks.

A policy has a type, belongs to a namespace, and applies where it is attached and below (`inheritance`). This package
has values, rules and rows; `catalog.policies` resolves names.
"""

from .audiences import AudiencePrincipal
from .inheritance import (
    EffectivePolicy,
    EffectivePolicyChange,
    InheritanceLevel,
    ShadowedPolicy,
    policy_effects,
    resolve_policies,
)
from .maintenance_content import MaintenanceContent, parse_maintenance_content
from .model import (
    AttachedPolicy,
    AttachmentTarget,
    Policy,
    PolicyTargetKind,
    PolicyVersion,
    check_description,
    check_policy_name,
)
from .policy_types import SYSTEM_TYPES, PolicyType, define_type
from .restrictions import RESTRICTION_TYPES, Restriction, restriction_for

__all__ = [
    "RESTRICTION_TYPES",
    "SYSTEM_TYPES",
    "AttachedPolicy",
    "AttachmentTarget",
    "AudiencePrincipal",
    "EffectivePolicy",
    "EffectivePolicyChange",
    "InheritanceLevel",
    "MaintenanceContent",
    "Policy",
    "PolicyTargetKind",
    "PolicyType",
    "PolicyVersion",
    "Restriction",
    "ShadowedPolicy",
    "check_description",
    "check_policy_name",
    "define_type",
    "parse_maintenance_content",
    "policy_effects",
    "resolve_policies",
    "restriction_for",
]
