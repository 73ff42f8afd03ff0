"""Labels: values, validation, changes and search queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lakebed.core.errors import ConflictingProperties, InvalidInput
from lakebed.core.unset import UNSET, Unset

MAX_TAGS: Final = 50
"""Most tags of one subject: they are returned wherever it is listed."""

MAX_KEY_BYTES: Final = 128
MAX_VALUE_BYTES: Final = 256
MAX_FILTERS: Final = 10

_SEPARATOR: Final = ":"
"""Separates key and value, and kind and name of an owner."""


class LabelKind(StrEnum):
    """The kinds of resources that can have labels."""

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
    """A resource that can have labels."""

    kind: LabelKind
    catalog: str = ""
    """Of the catalog, and of everything in one."""
    namespace: tuple[str, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.catalog, ".".join(self.namespace), self.name) if part)


class OwnerKind(StrEnum):
    """The kinds of owners."""

    PRINCIPAL = "principal"
    PRINCIPAL_ROLE = "principal-role"


class LabelOwner(NamedTuple):
    """The responsible party of a resource. Ownership grants nothing."""

    kind: OwnerKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}{_SEPARATOR}{self.name}"


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a resource."""

    tags: Mapping[str, str] = field(default_factory=dict)
    owner: LabelOwner | None = None


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A change of labels."""

    set_tags: Mapping[str, str] = field(default_factory=dict)
    remove_tags: Sequence[str] = ()
    owner: LabelOwner | Unset | None = UNSET
    """None removes the owner."""


class TagFilter(NamedTuple):
    """Selects a tag by key, and by value if given."""

    key: str
    value: str | None = None

    def matches(self, tags: Mapping[str, str]) -> bool:
        """Whether the tags match."""
        return self.key in tags if self.value is None else tags.get(self.key) == self.value

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}{_SEPARATOR}{self.value}"


@dataclass(frozen=True, slots=True)
class LabelQuery:
    """A search; all criteria must match."""

    tags: Sequence[TagFilter] = ()
    owner: LabelOwner | None = None
    kind: LabelKind | None = None
    catalog: str = ""

    def __str__(self) -> str:
        return f"{[str(one) for one in self.tags]} {self.owner or ''} {self.kind or ''} {self.catalog}"


def apply_change(labels: Labels, change: LabelChange) -> Labels:
    """The labels after a change. Raises InvalidInput, ConflictingProperties. Removing an absent tag is no error."""
    for key, value in change.set_tags.items():
        check_tag_key(key)
        _check_tag_value(key, value)
    both = sorted(set(change.remove_tags) & change.set_tags.keys())
    if both:
        raise ConflictingProperties(f"tags are both set and removed: {', '.join(both)}", argument="remove-tags")
    removed = set(change.remove_tags)
    tags = {key: value for key, value in labels.tags.items() if key not in removed} | dict(change.set_tags)
    if len(tags) > MAX_TAGS:
        raise InvalidInput(f"too many tags. found={len(tags)} maximum={MAX_TAGS}", argument="set-tags")
    owner = labels.owner if change.owner is UNSET else change.owner
    return Labels(dict(sorted(tags.items())), owner)


def check_tag_key(key: str) -> str:
    """Return a valid tag key. Raises InvalidInput."""
    if not _is_valid_text(key, MAX_KEY_BYTES) or not key or _SEPARATOR in key or key != key.strip():
        raise InvalidInput(
            f"a tag key has 1 to {MAX_KEY_BYTES} bytes, no colon, no control character and no blank at its ends:"
            f" {key[:80]!r}",
            argument="tag",
            value=key[:80],
        )
    return key


def parse_tag_filter(text: str) -> TagFilter:
    """`key:value`, or `key` for any value. Raises InvalidInput."""
    key, separator, value = text.partition(_SEPARATOR)
    return TagFilter(check_tag_key(key), value if separator else None)


def parse_owner(text: str) -> LabelOwner:
    """`principal:NAME` or `principal-role:NAME`. Raises InvalidInput."""
    kind, separator, name = text.partition(_SEPARATOR)
    if kind not in list(OwnerKind) or not separator or not name:
        raise InvalidInput(
            f"an owner is {OwnerKind.PRINCIPAL}:NAME or {OwnerKind.PRINCIPAL_ROLE}:NAME: {text[:80]!r}",
            argument="owner",
            value=text[:80],
        )
    return LabelOwner(OwnerKind(kind), name)


def _check_tag_value(key: str, value: str) -> None:
    if not _is_valid_text(value, MAX_VALUE_BYTES):
        raise InvalidInput(
            f"a tag value has at most {MAX_VALUE_BYTES} bytes and no control character. key={key}",
            argument="set-tags",
        )


def _is_valid_text(text: str, limit: int) -> bool:
    try:
        return len(text.encode()) <= limit and not any(character < " " or character == "\x7f" for character in text)
    except UnicodeEncodeError:
        return False
