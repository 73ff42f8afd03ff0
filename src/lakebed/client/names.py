"""Names of tables and namespaces, and their encoding in paths and queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidName
from lakebed.core.sigv4 import encode_segment

SEPARATOR: Final = "\x1f"
"""Separates the levels of a namespace."""

CATALOG_PAGE: Final = "pageToken"
"""The page token parameter of the Iceberg REST catalog."""


class TableRef(NamedTuple):
    """A table by name."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str

    @classmethod
    def parse(cls, warehouse: str, name: str) -> TableRef:
        """Parse `namespace.table`, where the namespace may have several levels.

        Raises InvalidName.
        """
        *levels, table = name.split(".")
        if not warehouse or not levels or not all(levels) or not table:
            raise InvalidName(f"expected a warehouse and NAMESPACE.TABLE. warehouse={warehouse!r} table={name!r}")
        return cls(warehouse, tuple(levels), table)

    @property
    def name(self) -> str:
        """The name without the warehouse: `namespace.table`."""
        return ".".join((*self.namespace, self.table))

    def __str__(self) -> str:
        return f"{self.warehouse}.{self.name}"


def joined(levels: Sequence[str]) -> str:
    """A namespace in a query parameter."""
    return SEPARATOR.join(levels)


def path(*segments: str | Sequence[str]) -> str:
    """An encoded path; a sequence of names is one namespace segment."""
    return "".join(
        "/" + encode_segment(segment if isinstance(segment, str) else joined(segment)) for segment in segments
    )
