"""The values of policies: what is stored, where it is attached, and what may be said of either."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput, InvalidName

Path = tuple[str, ...]
"""The levels of a namespace, outermost first; of a table or view, its name behind them."""

MAX_NAME_CHARS: Final = 255
MAX_DESCRIPTION_BYTES: Final = 4096

_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARS}}}")


class PolicyTargetKind(StrEnum):
    """What a policy can be attached to."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"


class AttachmentTarget(NamedTuple):
    """What a policy is attached to, by name."""

    kind: PolicyTargetKind
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(self.path)}" if self.path else str(self.kind)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, as its row has it."""

    id: int
    namespace: Path
    """Where it lives, which says nothing of where it is attached."""
    name: str
    type: str
    inheritable: bool
    """Whether it holds for what is inside its target too. Its type says so, for all of its policies."""
    description: str | None
    content: str
    """As it was sent, byte for byte."""
    version: int
    """0 at first; one more with every change of description or content."""
    created_ms: int
    updated_ms: int

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """What a policy said at one of its versions."""

    version: int
    description: str | None
    content: str
    principal: str
    """Who said so; empty where that was not written down."""
    created_ms: int


@dataclass(frozen=True, slots=True)
class AttachedPolicy:
    """A policy at one of its targets."""

    policy: Policy
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Given with the attachment, for whoever carries the policy out."""
    attached_ms: int = 0


def check_policy_name(name: str) -> str:
    """The name, if a policy may be called so. Raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"a policy's name has 1 to {MAX_NAME_CHARS} letters, digits, hyphens or underscores: {name[:80]!r}",
            argument="name",
            value=name[:80],
        )
    return name


def check_description(description: str | None) -> str | None:
    """The description, if it can be kept. Raises InvalidInput."""
    if description is None:
        return None
    try:
        size = len(description.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("a description is text in UTF-8", argument="description") from error
    if size > MAX_DESCRIPTION_BYTES:
        raise InvalidInput(f"a description has at most {MAX_DESCRIPTION_BYTES} bytes", argument="description")
    if "\0" in description:
        raise InvalidInput("a description holds no nul", argument="description")
    return description
