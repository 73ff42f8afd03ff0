"""What privileges are held on, by ids: the keys that rows have, and the ways that questions are asked with.

    service → catalog → namespace → … → table, view or policy
    service → catalog → catalog role
    service → principal, principal role

Grants are on catalogs and what is in them, and on the service. Nothing is granted on users and roles themselves:
whoever asks about one holds the privilege further up, or not at all. So they have no key, and their way ends where they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakebed.core.access import Securable

SERVICE_KEY: Final = "service"
SERVICE: Final = Securable((SERVICE_KEY,))
"""The server as a whole, and every user and principal role."""


def catalog_key(catalog: int) -> str:
    """A catalog, in a row."""
    return f"catalog {catalog}"


def namespace_key(namespace: int) -> str:
    """A namespace, in a row."""
    return f"namespace {namespace}"


def entry_key(entry: str) -> str:
    """A table or view, in a row."""
    return f"entry {entry}"


def policy_key(policy: int) -> str:
    """A policy, in a row."""
    return f"policy {policy}"


def catalog_securable(catalog: int) -> Securable:
    """A catalog, and every role in it."""
    return Securable((SERVICE_KEY, f"catalog {catalog}"))


def namespace_securable(catalog: int, lineage: Sequence[int]) -> Securable:
    """A namespace, by the ids of all that it lies in, outermost first, and its own. Without any: the catalog."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *[f"namespace {each}" for each in lineage]))


def entry_securable(catalog: int, lineage: Sequence[int], entry: str) -> Securable:
    """A table or view, by the ids of the namespaces that it lies in and its own."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *[f"namespace {each}" for each in lineage], f"entry {entry}"))


def policy_securable(catalog: int, lineage: Sequence[int], policy: int) -> Securable:
    """A policy, by the ids of the namespaces that it lives in and its own."""
    way = namespace_securable(catalog, lineage)
    return Securable((*way.path, policy_key(policy)))
