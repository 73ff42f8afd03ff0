"""Policies: what is to be done to tables, and who sees what of them, kept apart from who may do what.

A policy has a type, lives in a namespace, and holds where it is attached: `resolving` says for which tables. This
package knows values, rules and rows; `tables.policies` binds them to names of the catalog.
"""

from .audiences import Person
from .inheritance import Applicable, Effect, Level, Overridden, effects_of, resolve
from .maintenance_content import MaintenanceContent, parse_content
from .model import Attachment, Place, Policy, PolicyVersion, TargetKind, check_description, check_policy_name
from .policy_types import SYSTEM_TYPES, PolicyType, define_type
from .restrictions import RESTRICTING, Restriction, restrict

__all__ = [
    "RESTRICTING",
    "SYSTEM_TYPES",
    "Applicable",
    "Attachment",
    "Effect",
    "Level",
    "MaintenanceContent",
    "Overridden",
    "Person",
    "Place",
    "Policy",
    "PolicyType",
    "PolicyVersion",
    "Restriction",
    "TargetKind",
    "check_description",
    "check_policy_name",
    "define_type",
    "effects_of",
    "parse_content",
    "resolve",
    "restrict",
]
