"""Routes of a JSON API: which handler serves a method and path, and the base paths that routes are mounted at."""

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
    """One operation on the wire."""

    name: str
    """The operation's id in the API specification, as logs and metrics show it."""
    method: str
    path: str
    """Segments behind the base path; `{…}` is one of any value."""
    handle: Handler[S]
    is_standard: bool = True
    """Whether the specification has it: then its template is among `endpoints` in the configuration."""
    changes: bool = False
    """Whether a repeated request with the same Idempotency-Key gets the first response."""
    replay: Replay[S] | None = None
    """Makes that response from the table or view with an id, for routes whose responses are not stored whole."""
    is_large: bool = False
    """Whether its documents hold whole schemas or lists of changes."""
    actions: Sequence[Action] = ()
    """Callers that have permission for none of these are refused before the body is read."""

    @property
    def endpoint(self) -> str:
        """As the specification spells it."""
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
        """The route of a path behind its base. Raises ApiFault: 404 for no such path, 405 for no such method."""
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
        """The prefix of all paths that are served here."""
        return self.base + self.root

    def on(self, services: S) -> ServedMount:
        """The mount with the services that its handlers call."""
        return ServedMount(self, services)


class ServedMount(NamedTuple):
    """A mount, and the services that its handlers call."""

    mount: Mount[Any]  # Any: `Mount.on` makes sure that they fit
    services: Any
