"""Policy types: predefined ones, and user-defined ones with a JSON schema.

A type determines the content of its policies, their targets, and whether they are inherited. It cannot be changed,
because existing policies depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput, InvalidName

from .json_documents import Json
from .maintenance_content import CONFIG_OPTIONS, parse_maintenance_content
from .model import PolicyTargetKind, check_description
from .restrictions import COLUMN_MASK, RESTRICTION_TYPES, ROW_FILTER, parse_restriction
from .schemas import check_against, check_schema

RESERVED: Final = ("system", "lakebed")
"""Prefixes of predefined types."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class PolicyType:
    """The common properties of the policies of a type."""

    name: str
    inheritable: bool = True
    targets: tuple[PolicyTargetKind, ...] = tuple(PolicyTargetKind)
    description: str | None = None
    schema: bytes | None = None
    """The JSON schema of their content; None for predefined types."""
    created_ms: int = 0

    @property
    def is_system(self) -> bool:
        """Whether the type is predefined."""
        return self.schema is None

    @property
    def is_cumulative(self) -> bool:
        """Whether all inherited policies of the type apply, not only the nearest."""
        return self.name in RESTRICTION_TYPES

    def check_content(self, content: str | None) -> None:
        """Return if the content is valid. Raises InvalidPolicy with the JSON path of the error."""
        if self.schema is not None:
            check_against(self.schema, content)
        elif self.name in RESTRICTION_TYPES:
            parse_restriction(self.name, content)
        else:
            parse_maintenance_content(self.name, content)


_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "system.data-compaction": "rewrite small data files and delete files into larger data files",
    "system.metadata-compaction": "rewrite manifests",
    "system.orphan-file-removal": "remove files that no metadata references",
    "system.snapshot-expiry": "expire old snapshots",
}

_RESTRICTABLE: Final = (PolicyTargetKind.CATALOG, PolicyTargetKind.NAMESPACE, PolicyTargetKind.TABLE)
"""Views have no rows of their own; restrictions of their tables apply."""

SYSTEM_TYPES: Final[Mapping[str, PolicyType]] = {
    COLUMN_MASK: PolicyType(
        COLUMN_MASK,
        targets=_RESTRICTABLE,
        description="hide some columns, or parts of their values, from some principals",
    ),
    ROW_FILTER: PolicyType(
        ROW_FILTER, targets=_RESTRICTABLE, description="hide rows that do not match a filter from some principals"
    ),
    # Views are targets too: this server does nothing to them, but other engines may apply the policies.
    **{name: PolicyType(name, description=_DESCRIPTIONS[name]) for name in sorted(CONFIG_OPTIONS)},
}


def define_type(
    name: str,
    schema: Json,
    *,
    inheritable: bool = True,
    targets: tuple[PolicyTargetKind, ...] = tuple(PolicyTargetKind),
    description: str | None = None,
    now_ms: int = 0,
) -> PolicyType:
    """Define a type. Raises InvalidName, InvalidInput; InvalidPolicy with the JSON path of an invalid schema."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            "the name of a policy type has 1 to 128 letters, digits, dots, hyphens or underscores and begins with a"
            f" letter or digit: {name[:80]!r}",
            argument="name",
            value=name[:80],
        )
    if name.lower().partition(".")[0] in RESERVED:
        raise InvalidName(
            f"names of policy types that begin with {' or '.join(RESERVED)} are reserved: {name}", argument="name"
        )
    if not targets:
        raise InvalidInput("a policy type requires at least one kind of target", argument="targets")
    ordered = tuple(kind for kind in PolicyTargetKind if kind in targets)
    return PolicyType(name, inheritable, ordered, check_description(description), check_schema(schema), now_ms)
