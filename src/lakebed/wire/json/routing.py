"""Routes of a JSON API: maps methods and paths to handlers, and mounts routes at base paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from lakebed.catalog.access.authorization import Action
from lakebed.wire.http.message import Response

from .errors import ApiFault
from .path_tree import PathTree
from .request import JsonRequest, decode_segment

S = TypeVar("S")
"""The services that an API's handlers call."""

Handler: TypeAlias = Callable[[S, JsonRequest], Awaitable[Response]]
Replay: TypeAlias = Callable[[S, JsonRequest, str], Awaitable[Response]]

CATALOG_BASES: Final = ("/iceberg", "/_iceberg", "/api/catalog", "")
"""Base paths of the catalog: its own, the alias of S3 Tables clients, the one that Polaris clients are configured with,
and the root, where the specifications of Polaris and of Iceberg put the routes."""


class Route(NamedTuple, Generic[S]):
    """A method and path with their handler."""

    name: str
    """The operation's id in the API specification, as logs and metrics show it."""
    method: str
    path: str
    """The path after the base path; `{…}` matches one segment."""
    handle: Handler[S]
    is_standard: bool = True
    """Whether the route is part of the specification, and so listed in `endpoints` of the configuration."""
    changes: bool = False
    """Whether a repeated request with the same Idempotency-Key gets the first response."""
    replay: Replay[S] | None = None
    """Creates that response for a table or view by its id, on routes that do not store whole responses."""
    is_large: bool = False
    """Whether its documents contain whole schemas or lists of changes."""
    actions: Sequence[Action] = ()
    """Callers with permission for none of these are denied before the body is read."""

    @property
    def endpoint(self) -> str:
        """The entry in `endpoints`."""
        return f"{self.method} {self.path.replace('{warehouse}', '{prefix}')}"


class MatchedRoute(NamedTuple, Generic[S]):
    """The route of a request, and the names in its path."""

    route: Route[S]
    names: Mapping[str, str]


class RouteTable(Generic[S]):
    """All routes of one API."""

    def __init__(self, routes: Sequence[Route[S]]) -> None:
        self.routes = tuple(routes)
        self._tree: PathTree[tuple[Route[S], Sequence[str]]] = PathTree()
        for route in routes:
            segments = route.path.strip("/").split("/")
            names = [segment[1:-1] for segment in segments if segment.startswith("{")]
            self._tree.add(route.method, route.path, (route, names))

    def find(self, method: str, path: str) -> MatchedRoute[S]:
        """The route of a path without its base. Raises ApiFault: 404 for an unknown path, 405 for a wrong method."""
        match = self._tree.find(path)
        if match is None:
            raise ApiFault(404, "NoSuchResourceException", f"no such path in the catalog: {path}")
        found = match.methods.get(method)
        if found is None:
            allowed = ", ".join(sorted(match.methods))
            raise ApiFault(405, "BadRequestException", f"{method} is not allowed here; {allowed} is. path={path}")
        route, names = found
        return MatchedRoute(
            route, {name: decode_segment(value) for name, value in zip(names, match.values, strict=True)}
        )


class Mount(NamedTuple, Generic[S]):
    """Routes, and the base path that they are served at."""

    base: str
    root: str
    """The first segments of all paths of the routes, such as `/v1/`."""
    routes: RouteTable[S]
    edge: str = "iceberg"
    """The protocol's name in the request log."""

    @property
    def prefix(self) -> str:
        """The common prefix of all paths."""
        return self.base + self.root

    def on(self, services: S) -> ServedMount:
        """The mount with the services that its handlers call."""
        return ServedMount(self, services)


class ServedMount(NamedTuple):
    """A mount, and the services that its handlers call."""

    mount: Mount[Any]  # Any: `Mount.on` makes sure that they fit
    services: Any
