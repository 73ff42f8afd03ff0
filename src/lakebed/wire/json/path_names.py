"""The subject of an operation as its path names it: a catalog, a namespace and an entity in it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lakebed.catalog.identifiers import display

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
"""Path segments that name the entity; of several, the first."""

_FACTS: Final = ("catalog-role", "principal-role", "ref")


class OperationSubject(NamedTuple):
    """What an operation is done to."""

    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    facts: Mapping[str, str] = _NOTHING
    """Further names in the request, by what they name."""

    @property
    def path(self) -> str:
        """As the subject of events."""
        return "/".join(part for part in (self.catalog, self.path_in_catalog) if part)

    @property
    def path_in_catalog(self) -> str:
        """The same without the catalog."""
        return "/".join(part for part in (display(self.namespace), self.name) if part)


def subject_of_path(names: Mapping[str, str]) -> OperationSubject:
    """The subject that the named segments of a path give. Does not check the names."""
    namespace = names.get("namespace")
    about = next((key for key in _NAMES if key in names), "")
    return OperationSubject(
        names.get("warehouse") or names.get("catalog", ""),
        () if namespace is None else split_namespace(namespace),
        names.get(about, ""),
        {key: names[key] for key in _FACTS if key in names and key != about},
    )
