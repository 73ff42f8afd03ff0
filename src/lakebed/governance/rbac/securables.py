"""Securables: the keys of grants in rows, and the paths that authorization checks.

    service → catalog → namespace → … → table, view or policy
    service → catalog → catalog role
    service → principal, principal role
    service → streams → stream database → stream table

Grants are on catalogs, their contents, and the service. Principals and roles cannot have grants on them, so they have
no key: their path ends above them.

Catalogs, tables, views and policies have ids as keys. A namespace has its catalog and path, because it cannot be
renamed. A path can be reused after a drop, so dropping a namespace with grants invalidates cached grants (see
`grant_cleanup`). Streams are keyed by name, with `*` for any, and follow the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lakebed.core.access import Securable

from .model import LEVEL_SEPARATOR

SERVICE_KEY: Final = "service"
SERVICE: Final = Securable((SERVICE_KEY,))
"""The server, and every principal and principal role."""

ENTRY_PREFIX: Final = "entry "
"""Prefix of the keys of tables and views."""

STREAMS_KEY: Final = "streams"
"""All streams of the server: the cluster in Fluss."""

ANY_NAME: Final = "*"


def stream_key(database: str = "", table: str = "") -> str:
    """The key of all streams, a stream database or a stream table. Their names contain no blank and no dot."""
    if not database:
        return STREAMS_KEY
    return f"{STREAMS_KEY} {database}.{table}" if table else f"{STREAMS_KEY} {database}"


_ANY_DATABASE: Final = stream_key(ANY_NAME)
_ANY_STREAM: Final = stream_key(ANY_NAME, ANY_NAME)


def stream_securable(database: str = "", table: str = "") -> Securable:
    """All streams, a stream database or a stream table."""
    path = [SERVICE_KEY, STREAMS_KEY]
    if database:
        path += [_ANY_DATABASE, stream_key(database)]
        if table:
            path += [_ANY_STREAM, stream_key(database, table)]
    return Securable(tuple(path))


def catalog_key(catalog: int) -> str:
    """The key of a catalog."""
    return f"catalog {catalog}"


def namespace_key(catalog: int, levels: Sequence[str]) -> str:
    """The key of a namespace. Unique: levels contain no separator."""
    return f"namespace {catalog} {LEVEL_SEPARATOR.join(levels)}"


def entry_key(entry: str) -> str:
    """The key of a table or view."""
    return f"{ENTRY_PREFIX}{entry}"


def policy_key(policy: int) -> str:
    """The key of a policy."""
    return f"policy {policy}"


def catalog_securable(catalog: int) -> Securable:
    """A catalog, and every role in it."""
    return Securable((SERVICE_KEY, f"catalog {catalog}"))


def namespace_securable(catalog: int, levels: Sequence[str]) -> Securable:
    """A namespace, by its levels from the outermost; the catalog without any."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *_namespace_keys(catalog, levels)))


def entry_securable(catalog: int, levels: Sequence[str], entry: str) -> Securable:
    """A table or view, by its namespace and id."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *_namespace_keys(catalog, levels), f"{ENTRY_PREFIX}{entry}"))


def policy_securable(catalog: int, levels: Sequence[str], policy: int) -> Securable:
    """A policy, by its namespace and id."""
    return Securable((SERVICE_KEY, f"catalog {catalog}", *_namespace_keys(catalog, levels), policy_key(policy)))


def _namespace_keys(catalog: int, levels: Sequence[str]) -> Iterator[str]:
    """The keys of a namespace and its parents, outermost first."""
    path = f"namespace {catalog} "
    for depth, level in enumerate(levels):
        path += f"{LEVEL_SEPARATOR}{level}" if depth else level
        yield path
