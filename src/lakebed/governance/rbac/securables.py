"""What privileges are held on: the keys that rows have, and the ways that questions are asked with.

    service → catalog → namespace → … → table, view or policy
    service → catalog → catalog role
    service → principal, principal role
    service → streams → database of streams → stream table

Grants are on catalogs and what is in them, and on the service. Nothing is granted on users and roles themselves:
whoever asks about one holds the privilege further up, or not at all. So they have no key, and their way ends where they
are.

Catalogs, tables, views and policies are named by their ids, namespaces by catalog and path: whoever asks about a table
knows the levels above it, and a namespace is never renamed. A path is given again when its namespace was dropped, so
dropping one that grants are on moves the number that compiled grants are good for (see `releasing`). What is of streams
is named throughout, `*` for any, and goes by the same rule.
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

STREAMS_KEY: Final = "streams"
"""All streams of the server: what Fluss calls the cluster."""

ANY_NAME: Final = "*"


def stream_key(database: str = "", table: str = "") -> str:
    """Streams, a database of them, or a table, in a row. Names of these hold no blank and no dot."""
    if not database:
        return STREAMS_KEY
    return f"{STREAMS_KEY} {database}.{table}" if table else f"{STREAMS_KEY} {database}"


_ANY_DATABASE: Final = stream_key(ANY_NAME)
_ANY_STREAM: Final = stream_key(ANY_NAME, ANY_NAME)


def stream_securable(database: str = "", table: str = "") -> Securable:
    """Streams, a database of them, or a table."""
    path = [SERVICE_KEY, STREAMS_KEY]
    if database:
        path += [_ANY_DATABASE, stream_key(database)]
        if table:
            path += [_ANY_STREAM, stream_key(database, table)]
    return Securable(tuple(path))


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
