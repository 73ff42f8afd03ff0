"""The values of labels: what can have them, what they are, how they change and how they are asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lakebed.core.errors import ConflictingProperties, InvalidInput
from lakebed.core.unset import UNSET, Unset

MAX_TAGS: Final = 50
"""Most tags of one thing: they are shown with it wherever it is found."""

MAX_KEY_BYTES: Final = 128
MAX_VALUE_BYTES: Final = 256
MAX_FILTERS: Final = 10

_BETWEEN: Final = ":"
"""Between key and value, and between the kind and the name of an owner, as people write them."""


class LabelKind(StrEnum):
    """What can have labels."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    GENERIC_TABLE = "generic-table"
    POLICY = "policy"
    CATALOG_ROLE = "catalog-role"
    PRINCIPAL = "principal"
    PRINCIPAL_ROLE = "principal-role"


class LabelSubject(NamedTuple):
    """Something that can have labels, by name."""

    kind: LabelKind
    catalog: str = ""
    """Of what is in one, or is one."""
    namespace: tuple[str, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.catalog, ".".join(self.namespace), self.name) if part)


class OwnerKind(StrEnum):
    """Who can own things."""

    PRINCIPAL = "principal"
    PRINCIPAL_ROLE = "principal-role"


class LabelOwner(NamedTuple):
    """Whom to ask about something. It may do no more to it than it may otherwise."""

    kind: OwnerKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}{_BETWEEN}{self.name}"


@dataclass(frozen=True, slots=True)
class Labels:
    """What something is labelled with."""

    tags: Mapping[str, str] = field(default_factory=dict)
    owner: LabelOwner | None = None


@dataclass(frozen=True, slots=True)
class LabelChange:
    """What is to become of labels."""

    set_tags: Mapping[str, str] = field(default_factory=dict)
    remove_tags: Sequence[str] = ()
    owner: LabelOwner | Unset | None = UNSET
    """None takes the owner away."""


class TagFilter(NamedTuple):
    """Which tag is asked for: of a key, with a value or with any."""

    key: str
    value: str | None = None

    def takes(self, tags: Mapping[str, str]) -> bool:
        """Whether what has these tags is asked for."""
        return self.key in tags if self.value is None else tags.get(self.key) == self.value

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}{_BETWEEN}{self.value}"


@dataclass(frozen=True, slots=True)
class LabelQuery:
    """What is looked for: all of it has to fit."""

    tags: Sequence[TagFilter] = ()
    owner: LabelOwner | None = None
    kind: LabelKind | None = None
    catalog: str = ""

    def __str__(self) -> str:
        return f"{[str(one) for one in self.tags]} {self.owner or ''} {self.kind or ''} {self.catalog}"


def apply_change(labels: Labels, change: LabelChange) -> Labels:
    """The labels after a change. Raises InvalidInput, ConflictingProperties. Removing what is not there is no fault."""
    for key, value in change.set_tags.items():
        check_tag_key(key)
        _check_tag_value(key, value)
    both = sorted(set(change.remove_tags) & change.set_tags.keys())
    if both:
        raise ConflictingProperties(f"tags are both set and removed: {', '.join(both)}", argument="remove-tags")
    gone = set(change.remove_tags)
    tags = {key: value for key, value in labels.tags.items() if key not in gone} | dict(change.set_tags)
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"too many tags of one thing. found={len(tags)} maximum={MAX_TAGS}", argument="set-tags")
    owner = labels.owner if change.owner is UNSET else change.owner
    return Labels(dict(sorted(tags.items())), owner)


def check_tag_key(key: str) -> str:
    """The key, if a tag may have it. Raises InvalidInput."""
    if not _fits(key, MAX_KEY_BYTES) or not key or _BETWEEN in key or key != key.strip():
        raise InvalidInput(
            f"a tag's key has 1 to {MAX_KEY_BYTES} bytes, no colon, no control character and no blank at its ends:"
            f" {key[:80]!r}",
            argument="tag",
            value=key[:80],
        )
    return key


def parse_tag_filter(text: str) -> TagFilter:
    """`key:value`, or `key` for any value. Raises InvalidInput."""
    key, between, value = text.partition(_BETWEEN)
    return TagFilter(check_tag_key(key), value if between else None)


def parse_owner(text: str) -> LabelOwner:
    """`principal:NAME` or `principal-role:NAME`. Raises InvalidInput."""
    kind, between, name = text.partition(_BETWEEN)
    if kind not in list(OwnerKind) or not between or not name:
        raise InvalidInput(
            f"an owner is {OwnerKind.PRINCIPAL}:NAME or {OwnerKind.PRINCIPAL_ROLE}:NAME: {text[:80]!r}",
            argument="owner",
            value=text[:80],
        )
    return LabelOwner(OwnerKind(kind), name)


def _check_tag_value(key: str, value: str) -> None:
    if not _fits(value, MAX_VALUE_BYTES):
        raise InvalidInput(
            f"a tag's value has at most {MAX_VALUE_BYTES} bytes and no control character. key={key}",
            argument="set-tags",
        )


def _fits(text: str, limit: int) -> bool:
    try:
        return len(text.encode()) <= limit and not any(character < " " or character == "\x7f" for character in text)
    except UnicodeEncodeError:
        return False
