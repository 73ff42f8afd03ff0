"""The paths of the server's own APIs: every route of the health probes, tokens, catalog, administration and management.

They share a listener with S3 unless `server.catalog_listen` is set, where a path-style request names a bucket by the
first segment of its path. `dispatch` decides between them, `reserved_names` keeps buckets and keys out of their way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from lakebed.wire.admin.app import HEALTH_PATHS, METRICS_PATH
from lakebed.wire.admin.operations import admin_mount
from lakebed.wire.iceberg.routes import Mount
from lakebed.wire.management.operations import BASE as MANAGEMENT_BASE
from lakebed.wire.management.operations import MANAGEMENT_ROUTES
from lakebed.wire.oauth.app import KEYS_PATH, TOKEN_PATHS
from lakebed.wire.path_tree import PathTree

from ..catalog import all_catalog_mounts

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
    """S3 and STS: whatever is no path of another API."""


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


@functools.cache
def server_api_paths() -> ApiPaths:
    """The paths of this server's APIs."""
    mounts: list[tuple[Mount, Api]] = [(mount, Api.CATALOG) for mount in all_catalog_mounts()]
    mounts.append((admin_mount(), Api.ADMIN))
    routes = [(route.method, mount.base + route.path, api) for mount, api in mounts for route in mount.routes.routes]
    routes += [(route.method, MANAGEMENT_BASE + route.path, Api.MANAGEMENT) for route in MANAGEMENT_ROUTES]
    routes += [(method, path, Api.HEALTH) for path in (*HEALTH_PATHS, METRICS_PATH) for method in ("GET", "HEAD")]
    routes += [("POST", path, Api.TOKENS) for path in TOKEN_PATHS]
    routes += [(method, KEYS_PATH, Api.TOKENS) for method in ("GET", "HEAD")]
    prefixes = {mount.prefix: api for mount, api in mounts} | {f"{MANAGEMENT_BASE}/v1/": Api.MANAGEMENT}
    return ApiPaths(routes, prefixes)
