"""Tables and namespaces by name, and how paths and queries spell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidName
from lakebed.core.sigv4 import encode_segment

SEPARATOR: Final = "\x1f"
"""Between the levels of a namespace."""

CATALOG_PAGE: Final = "pageToken"
"""How the catalog's routes call what a list goes on with."""


class TableRef(NamedTuple):
    """A table by name."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str

    @classmethod
    def parse(cls, warehouse: str, name: str) -> TableRef:
        """A table as people write it: `namespace.table`, the namespace with as many levels as it has.

        Raises InvalidName.
        """
        *levels, table = name.split(".")
        if not warehouse or not levels or not all(levels) or not table:
            raise InvalidName(f"a table is a warehouse and namespace.table. warehouse={warehouse!r} table={name!r}")
        return cls(warehouse, tuple(levels), table)

    @property
    def name(self) -> str:
        """As people write it, without the warehouse: `namespace.table`."""
        return ".".join((*self.namespace, self.table))

    def __str__(self) -> str:
        return f"{self.warehouse}.{self.name}"


def joined(levels: Sequence[str]) -> str:
    """A namespace as queries have it."""
    return SEPARATOR.join(levels)


def path(*segments: str | Sequence[str]) -> str:
    """A path of encoded segments; a sequence is a namespace."""
    return "".join(
        "/" + encode_segment(segment if isinstance(segment, str) else joined(segment)) for segment in segments
    )
