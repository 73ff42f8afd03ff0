"""Policies, their versions and attachments, and the rules of names and descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput, InvalidName

Path = tuple[str, ...]
"""The levels of a namespace, outermost first; for a table or view, followed by its name."""

MAX_NAME_CHARS: Final = 255
MAX_DESCRIPTION_BYTES: Final = 4096

_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARS}}}")


class PolicyTargetKind(StrEnum):
    """The kinds of targets of policies."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"


class AttachmentTarget(NamedTuple):
    """The target of an attachment, by name."""

    kind: PolicyTargetKind
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(self.path)}" if self.path else str(self.kind)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy."""

    id: int
    namespace: Path
    """The namespace that contains it, independent of its attachments."""
    name: str
    type: str
    inheritable: bool
    """Whether it also applies inside its target. Determined by its type."""
    description: str | None
    content: str
    """The JSON text as it was sent."""
    version: int
    """Starts at 0; incremented with every change of description or content."""
    created_ms: int
    updated_ms: int

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A version of a policy."""

    version: int
    description: str | None
    content: str
    principal: str
    """The caller; empty if not recorded."""
    created_ms: int


@dataclass(frozen=True, slots=True)
class AttachedPolicy:
    """A policy attached to a target."""

    policy: Policy
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the attachment, for the engine that applies the policy."""
    attached_ms: int = 0


def check_policy_name(name: str) -> str:
    """Return a valid policy name. Raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"a policy name has 1 to {MAX_NAME_CHARS} letters, digits, hyphens or underscores: {name[:80]!r}",
            argument="name",
            value=name[:80],
        )
    return name


def check_description(description: str | None) -> str | None:
    """Return a valid description. Raises InvalidInput."""
    if description is None:
        return None
    try:
        size = len(description.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("a description must be valid UTF-8", argument="description") from error
    if size > MAX_DESCRIPTION_BYTES:
        raise InvalidInput(f"a description has at most {MAX_DESCRIPTION_BYTES} bytes", argument="description")
    if "\0" in description:
        raise InvalidInput("a description contains no NUL", argument="description")
    return description
