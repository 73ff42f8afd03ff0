"""Labels: tags and an owner, on everything that has a name. They tell, and grant nothing.

This package knows values, rules, rows and events; `tables.labels` binds them to names and asks the gate.
"""

from .model import (
    LabelChange,
    LabelKind,
    LabelOwner,
    LabelQuery,
    Labels,
    LabelSubject,
    OwnerKind,
    TagFilter,
    apply_change,
    parse_owner,
    parse_tag_filter,
)

__all__ = [
    "LabelChange",
    "LabelKind",
    "LabelOwner",
    "LabelQuery",
    "LabelSubject",
    "Labels",
    "OwnerKind",
    "TagFilter",
    "apply_change",
    "parse_owner",
    "parse_tag_filter",
]
