"""What a path names: a catalog, a namespace in it, and the thing that a request is about."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lakebed.tables.identifiers import display

from .request import split_namespace

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

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
"""What a path may be about, by the names of its segments; of several, the first."""

_FACTS: Final = ("catalog-role", "principal-role", "ref")


class OperationSubject(NamedTuple):
    """What an operation is done to."""

    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    facts: Mapping[str, str] = _NOTHING
    """What else is named, by what it is."""

    @property
    def subject(self) -> str:
        """As events have it."""
        return "/".join(part for part in (self.catalog, self.inside) if part)

    @property
    def inside(self) -> str:
        """The same, but for the catalog."""
        return "/".join(part for part in (display(self.namespace), self.name) if part)


def subject_of_path(names: Mapping[str, str]) -> OperationSubject:
    """What the segments of a path name. Whether the names are good is for others to find out."""
    namespace = names.get("namespace")
    about = next((key for key in _NAMES if key in names), "")
    return OperationSubject(
        names.get("warehouse") or names.get("catalog", ""),
        () if namespace is None else split_namespace(namespace),
        names.get(about, ""),
        {key: names[key] for key in _FACTS if key in names and key != about},
    )
