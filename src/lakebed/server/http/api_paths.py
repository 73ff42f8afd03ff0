"""The paths of the server's own APIs: every route of the health probes, tokens, catalog, administration and management.

They share a listener with S3 unless `server.catalog_listen` is set, where a path-style request names a bucket by the
first segment of its path. `dispatch` decides between them; `ReservedNames` refuses buckets and keys that path-style
requests could not reach.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from lakebed.core.errors import InvalidName
from lakebed.wire.admin.app import HEALTH_PATHS, METRICS_PATH
from lakebed.wire.admin.operations import admin_mount
from lakebed.wire.json.path_tree import PathTree
from lakebed.wire.json.routing import Mount
from lakebed.wire.management.operations import management_mount
from lakebed.wire.oauth.app import KEYS_PATH, TOKEN_PATHS

from ..catalog import catalog_mounts

_ADVICE: Final = "use another name, or serve the APIs on a separate listener (server.catalog_listen)"

CONSOLE_PREFIX: Final = "/console"
"""Every path below it is reserved for a web console, which has no routes yet."""


class Api(StrEnum):
    """An API of the server."""

    HEALTH = "health"
    """Health probes and metrics."""
    TOKENS = "tokens"
    CATALOG = "catalog"
    ADMIN = "admin"
    MANAGEMENT = "management"
    S3 = "s3"
    """S3 and STS: every path of no other API."""


class ApiPaths:
    """The path templates of all APIs but S3, and the prefixes that their paths begin with."""

    def __init__(self, routes: Iterable[tuple[str, str, Api]], prefixes: Mapping[str, Api]) -> None:
        """`routes` are methods, templates and APIs; `prefixes` end with a slash."""
        self._tree: PathTree[Api] = PathTree()
        self._prefixes = tuple(prefixes.items())
        roots = {prefix.split("/")[1] for prefix in prefixes}
        for method, template, api in routes:
            self._tree.add(method, template, api)
            roots.add(template.split("/")[1])
        self._roots = frozenset(roots)

    def has_root(self, segment: str) -> bool:
        """Whether any path of an API has this first segment. Most S3 requests are decided by it."""
        return segment in self._roots

    def find(self, path: str) -> Mapping[str, Api]:
        """The API that serves each method of a path; empty if no route has the path."""
        match = self._tree.find(path)
        return {} if match is None else match.methods

    def below(self, path: str) -> Api | None:
        """The API that the path would belong to if it had a route for it."""
        return next((api for prefix, api in self._prefixes if path.startswith(prefix)), None)


class ReservedNames:
    """Rejects bucket names and keys that an API path would hide. Implements `Reservations`.

    Virtual-host-style requests have the same rule, although their paths do not collide: another client must be able to
    read the object path-style, and a path-style `DELETE` of a key must never drop a table.
    """

    def __init__(self, paths: ApiPaths) -> None:
        self._paths = paths

    def check_bucket(self, name: str) -> None:
        """Raise InvalidName for a bucket whose path is a route: listing it would be a different request."""
        path = f"/{name}"
        if path == CONSOLE_PREFIX or self._paths.find(path):
            raise InvalidName(
                f"the name is reserved: {path} is a path of the server's own APIs; {_ADVICE}. bucket={name}",
                value=name,
            )

    def check_key(self, bucket: str, key: str) -> None:
        """Raise InvalidName for a key whose path is a route."""
        if self._paths.has_root(bucket) and self._paths.find(f"/{bucket}/{key}"):
            raise InvalidName(
                f"the key is reserved in this bucket: /{bucket}/{key} is a path of the server's own APIs; {_ADVICE}",
                argument="key",
                value=key,
            )


@functools.cache
def server_api_paths() -> ApiPaths:
    """The paths of this server's APIs."""
    catalog = catalog_mounts()
    mounts: list[tuple[Mount[Any], Api]] = [
        *((mount, Api.CATALOG) for mount in catalog.iceberg),
        *((mount, Api.CATALOG) for mount in catalog.polaris),
        (admin_mount(), Api.ADMIN),
        (management_mount(), Api.MANAGEMENT),
    ]
    routes = [(route.method, mount.base + route.path, api) for mount, api in mounts for route in mount.routes.routes]
    routes += [(method, path, Api.HEALTH) for path in (*HEALTH_PATHS, METRICS_PATH) for method in ("GET", "HEAD")]
    routes += [("POST", path, Api.TOKENS) for path in TOKEN_PATHS]
    routes += [(method, KEYS_PATH, Api.TOKENS) for method in ("GET", "HEAD")]
    return ApiPaths(routes, {mount.prefix: api for mount, api in mounts})
