"""Types of policies: those of the system and of this server, and those that users define with a schema of their own.

A type fixes what its policies have in common: what their content must be, what they can be attached to, and whether
they hold for what is inside their target. None of these can change later; policies of the type rely on them.
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
"""Names that begin with one of these are the server's own."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class PolicyType:
    """What all policies of a type have in common."""

    name: str
    inheritable: bool = True
    targets: tuple[PolicyTargetKind, ...] = tuple(PolicyTargetKind)
    description: str | None = None
    schema: bytes | None = None
    """The JSON schema of their content; None for the types of the system, which have rules of their own."""
    created_ms: int = 0

    @property
    def is_system(self) -> bool:
        """Whether the server itself knows what its policies say."""
        return self.schema is None

    @property
    def adds_up(self) -> bool:
        """Whether all of its policies hold that are attached on the way, and not the nearest alone."""
        return self.name in RESTRICTION_TYPES

    def check_content(self, content: str | None) -> None:
        """Return if a policy of this type may say so. Raises InvalidPolicy with the JSON path of what is wrong."""
        if self.schema is not None:
            check_against(self.schema, content)
        elif self.name in RESTRICTION_TYPES:
            parse_restriction(self.name, content)
        else:
            parse_maintenance_content(self.name, content)


_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "system.data-compaction": "rewrite small data files and deletes into files of a good size",
    "system.metadata-compaction": "rewrite manifests",
    "system.orphan-file-removal": "remove files that no metadata refers to",
    "system.snapshot-expiry": "expire old snapshots",
}

_HAVING_ROWS: Final = (PolicyTargetKind.CATALOG, PolicyTargetKind.NAMESPACE, PolicyTargetKind.TABLE)
"""A view shows what its tables show to who asks, and has no rows of its own."""

SYSTEM_TYPES: Final[Mapping[str, PolicyType]] = {
    COLUMN_MASK: PolicyType(
        COLUMN_MASK, targets=_HAVING_ROWS, description="show some only a part of some columns, or nothing of them"
    ),
    ROW_FILTER: PolicyType(
        ROW_FILTER, targets=_HAVING_ROWS, description="show some only the rows that fulfil a filter"
    ),
    # Views take them too: nothing is done to a view here, but others than the server carry policies out as well.
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
    """A type of a user's own. Raises InvalidName, InvalidInput; InvalidPolicy with the JSON path of a faulty schema."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            "the name of a policy type has 1 to 128 letters, digits, dots, hyphens or underscores, no such sign first:"
            f" {name[:80]!r}",
            argument="name",
            value=name[:80],
        )
    if name.lower().partition(".")[0] in RESERVED:
        raise InvalidName(
            f"types whose names begin with {' or '.join(RESERVED)} are the server's own: {name}", argument="name"
        )
    if not targets:
        raise InvalidInput("policies of a type go with at least one kind of target", argument="targets")
    wanted = tuple(kind for kind in PolicyTargetKind if kind in targets)
    return PolicyType(name, inheritable, wanted, check_description(description), check_schema(schema), now_ms)
