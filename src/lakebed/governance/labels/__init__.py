"""Labels: tags and an owner for every named resource. They are informative and grant nothing.

This package has values, rules, rows and events; `catalog.labels` resolves names and authorizes.
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
