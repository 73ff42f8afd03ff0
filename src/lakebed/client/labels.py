"""Labels: tags and owners of catalogs, tables, principals and other securables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.unset import UNSET, Unset

from .connection import ServerConnection
from .names import path

_LABELS: Final = "/lakebed/v1/labels"

IN_CATALOGS: Final = ("catalog", "namespace", "table", "view", "generic-table", "policy", "catalog-role")
"""Kinds of catalogs and of securables in catalogs."""

KINDS: Final = (*IN_CATALOGS, "principal", "principal-role")
"""Kinds that can have labels."""

_IN_NAMESPACES: Final = ("table", "view", "generic-table", "policy")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A securable or principal, by kind and name."""

    kind: str
    """One of `KINDS`."""
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""

    @classmethod
    def parse(cls, kind: str, name: str, *, catalog: str = "") -> Subject:
        """Parse a name: `namespace.table`, the levels of a namespace, or a plain name.

        `catalog` is the catalog of the entity; for kind `catalog`, the name is its own. Raises InvalidInput.
        """
        if kind not in KINDS:
            raise InvalidInput(f"unknown kind. found={kind} expected={', '.join(KINDS)}", argument="kind")
        if kind == "catalog":
            return cls(kind=kind, catalog=name)
        if kind not in IN_CATALOGS:
            return cls(kind=kind, name=name)
        if not catalog:
            raise InvalidInput(f"a {kind} needs a catalog", argument="catalog")
        if kind == "catalog-role":
            return cls(kind=kind, catalog=catalog, name=name)
        levels = tuple(name.split("."))
        if kind == "namespace":
            return cls(kind=kind, catalog=catalog, namespace=levels)
        if len(levels) < 2:
            raise InvalidInput(f"expected a {kind} as NAMESPACE.NAME. found={name!r}", argument="name")
        return cls(kind=kind, catalog=catalog, namespace=levels[:-1], name=levels[-1])

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, *self.namespace, self.name) if part)


class Owner(msgspec.Struct, frozen=True):
    """The owner of an entity."""

    type: str
    """`principal` or `principal-role`."""
    name: str

    @classmethod
    def parse(cls, text: str) -> Owner:
        """Parse `principal:ann` or `principal-role:team`. Raises InvalidInput."""
        kind, _, name = text.partition(":")
        if kind not in ("principal", "principal-role") or not name:
            raise InvalidInput(
                f"expected an owner as principal:NAME or principal-role:NAME. found={text!r}", argument="owner"
            )
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """An entity with its labels."""

    kind: str
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    tags: dict[str, str] = {}
    owner: Owner | None = None

    @property
    def subject(self) -> Subject:
        """The entity."""
        return Subject(kind=self.kind, catalog=self.catalog, namespace=self.namespace, name=self.name)


class _Found(msgspec.Struct, rename="kebab"):
    labelled: list[Labelled]
    next_page_token: str | None = None


class LabelStore:
    """The label API."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def get(self, subject: Subject) -> Labelled:
        """Get the labels of an entity. Raises NotFound."""
        return self._connection.read(Labelled, "GET", _path(subject))

    def change(
        self,
        subject: Subject,
        *,
        set_tags: Mapping[str, str] | None = None,
        remove_tags: Sequence[str] = (),
        owner: Owner | Unset | None = UNSET,
    ) -> Labelled:
        """Set and remove tags, and set the owner; None removes it. Raises NotFound, InvalidInput."""
        document: dict[str, object] = {"set-tags": dict(set_tags or {}), "remove-tags": list(remove_tags)}
        if owner is not UNSET:
            document["owner"] = owner
        return self._connection.read(Labelled, "PATCH", _path(subject), document=document, repeatable=True)

    def find(
        self,
        tag: str | None = None,
        *,
        owner: Owner | None = None,
        kind: str | None = None,
        catalog: str | None = None,
    ) -> Iterator[Labelled]:
        """Find entities by tag (`key:value` or `key`), owner, kind and catalog."""
        filters = {"tag": tag, "owner": None if owner is None else str(owner), "kind": kind, "catalog": catalog}
        query = {name: value for name, value in filters.items() if value is not None}
        for page in self._connection.pages(_Found, _LABELS, query):
            yield from page.labelled


def _path(subject: Subject) -> str:
    parts: list[str | Sequence[str]] = [subject.kind]
    if subject.kind in IN_CATALOGS:
        parts.append(subject.catalog)
    if subject.kind == "namespace" or subject.kind in _IN_NAMESPACES:
        parts.append(subject.namespace)
    if subject.name:
        parts.append(subject.name)
    return _LABELS + path(*parts)
