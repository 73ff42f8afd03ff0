"""Rejects operations on federated and external catalogs, whose tables another catalog manages.

A *federated* catalog is backed by an external Iceberg REST catalog, which has all of its content. An *external* catalog
keeps its own entries, and another catalog moves their pointers, by notifications or through a bridge.

Invariant: an internal operation never reads or changes a name in a federated catalog, whenever that was connected.
Routing selects the backend before the handler runs (ADR 55); this check closes the race that remains. Every statement
that resolves a catalog's name reads `is_federated` with the row, inside transactions too, so the check costs no query.
"""

from __future__ import annotations

from lakebed.core.errors import InvalidInput, NotSupported

from ..model import Catalog


def reject_federated(catalog: Catalog) -> Catalog:
    """Return the catalog unless it is federated. Raises NotSupported."""
    if catalog.is_federated:
        raise NotSupported(f"the operation is not supported for federated catalogs. catalog={catalog.name}")
    return catalog


def check_internal_catalog(catalog: Catalog, operation: str) -> None:
    """Return unless the catalog is external: its tables are read-only here. Raises InvalidInput.

    If clients moved the pointers too, both catalogs would diverge, and the next notification would undo a client's
    commit. Namespaces are still created and dropped here, and tables can be dropped without their files.
    """
    if catalog.is_external:
        raise InvalidInput(
            f"cannot {operation} in an external catalog: another catalog manages its tables. catalog={catalog.name}",
            argument="catalog",
        )


def check_served(catalog: Catalog, feature: str) -> None:
    """Return unless the catalog's files are in external storage. Raises NotSupported."""
    if catalog.storage_revision is not None:
        raise NotSupported(f"not supported for catalogs over external storage: {feature}. catalog={catalog.name}")
