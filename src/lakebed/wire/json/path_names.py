"""Reads the subject of an operation from the path: a catalog, a namespace and an entity in it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lakebed.catalog.identifiers import display

from .request import split_namespace

_NO_FACTS: Final[Mapping[str, str]] = MappingProxyType({})

_NAMES: Final = (
    "table",
    "view",
    "generic-table",
    "policy-name",
    "principal",
    "catalog-role",
    "principal-role",
    "target",
    "task",
)
"""Path segments that name the entity; of several, the first."""

_FACTS: Final = ("catalog-role", "principal-role", "ref")


class OperationSubject(NamedTuple):
    """The resource of an operation."""

    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    facts: Mapping[str, str] = _NO_FACTS
    """Other names in the request, by kind."""

    @property
    def path(self) -> str:
        """The subject of events."""
        return "/".join(part for part in (self.catalog, self.path_in_catalog) if part)

    @property
    def path_in_catalog(self) -> str:
        """The path without the catalog."""
        return "/".join(part for part in (display(self.namespace), self.name) if part)


def subject_of_path(names: Mapping[str, str]) -> OperationSubject:
    """The subject in the named segments of a path. Does not validate the names."""
    namespace = names.get("namespace")
    kind = next((key for key in _NAMES if key in names), "")
    return OperationSubject(
        names.get("warehouse") or names.get("catalog", ""),
        () if namespace is None else split_namespace(namespace),
        names.get(kind, ""),
        {key: names[key] for key in _FACTS if key in names and key != kind},
    )
