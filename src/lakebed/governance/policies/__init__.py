"""Policies: what is to be done to tables, and who sees what of them, kept apart from who may do what.

A policy has a type, lives in a namespace, and holds where it is attached: `resolving` says for which tables. This
package knows values, rules and rows; `tables.policies` binds them to names of the catalog.
"""

from .audiences import Person
from .content import MaintenanceContent, parse_content
from .effects import Effect, effects_of
from .model import Attachment, Place, Policy, PolicyVersion, TargetKind, check_description, check_policy_name
from .resolving import Applicable, Level, Overridden, resolve
from .restricting import RESTRICTING, Restriction, restrict
from .types import SYSTEM_TYPES, PolicyType, define_type

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
