"""Catalogs that another one is behind are not served from here: a look-up by name in one says so.

Invariant: nothing finds, makes or changes anything of this server's own under a name in such a catalog, at whatever
moment it was connected. Every statement that resolves a catalog's name reads whether it is (`rows`), inside
transactions too, so that the question costs nothing of its own; the edge passes the request on then.
"""

from __future__ import annotations

from lakebed.core.errors import NotSupported

from ..model import Catalog


def served_here(catalog: Catalog) -> Catalog:
    """The warehouse, unless another catalog is behind it. Raises NotSupported."""
    if catalog.is_backed:
        raise NotSupported(f"another catalog is behind this one, to which this is not passed on: {catalog.name}")
    return catalog
