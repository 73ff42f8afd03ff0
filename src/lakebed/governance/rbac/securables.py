"""What privileges are held on: the keys that rows have, and the ways that questions are asked with.

    service → catalog → namespace → … → table, view or policy
    service → catalog → catalog role
    service → principal, principal role

Grants are on catalogs and what is in them, and on the service. Nothing is granted on users and roles themselves:
whoever asks about one holds the privilege further up, or not at all. So they have no key, and their way ends where they
are.

Catalogs, tables, views and policies are named by their ids, namespaces by catalog and path: whoever asks about a table
knows the levels above it, and a namespace is never renamed. A path is given again when its namespace was dropped, so
dropping one that grants are on moves the number that compiled grants are good for (see `releasing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lakebed.core.access import Securable

from .model import LEVEL_SEPARATOR

SERVICE_KEY: Final = "service"
SERVICE: Final = Securable((SERVICE_KEY,))
"""The server as a whole, and every user and principal role."""

ENTRY_PREFIX: Final = "entry "
"""How the keys of tables and views begin."""


def catalog_key(catalog: int) -> str:
    """A catalog, in a row."""
    return f"catalog {catalog}"


def namespace_key(catalog: int, levels: Sequence[str]) -> str:
    """A namespace, in a row. No two have the same: levels hold no separator, and a catalog's number no blank."""
    return f"namespace {catalog} {LEVEL_SEPARATOR.join(levels)}"


def entry_key(entry: str) -> str:
    """A table or view, in a row."""
    return f"{ENTRY_PREFIX}{entry}"


def policy_key(policy: int) -> str:
    """A policy, in a row."""
    return f"policy {policy}"


def catalog_securable(catalog: int) -> Securable:
    """A catalog, and every role in it."""
    return Securable((SERVICE_KEY, f"catalog {catalog}"))


def namespace_securable(catalog: int, levels: Sequence[str]) -> Securable:
    """A namespace, by its levels, outermost first. Without any: the catalog."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *_around(catalog, levels)))


def entry_securable(catalog: int, levels: Sequence[str], entry: str) -> Securable:
    """A table or view, by the levels of its namespace and its id."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *_around(catalog, levels), f"{ENTRY_PREFIX}{entry}"))


def policy_securable(catalog: int, levels: Sequence[str], policy: int) -> Securable:
    """A policy, by the levels of its namespace and its id."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *_around(catalog, levels), policy_key(policy)))


def _around(catalog: int, levels: Sequence[str]) -> Iterator[str]:
    """The keys of a namespace and of all that it lies in."""
    path = f"namespace {catalog} "
    for depth, level in enumerate(levels):
        path += f"{LEVEL_SEPARATOR}{level}" if depth else level
        yield path
