"""Which operation answers which method and path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.tables.gate import Action
from lakebed.wire.http.message import Response

from ..iceberg.services import IcebergServices
from .errors import ApiFault
from .path_tree import PathTree
from .request import JsonRequest, decode_segment

Handler = Callable[[IcebergServices, JsonRequest], Awaitable[Response]]
Replay = Callable[[IcebergServices, JsonRequest, str], Awaitable[Response]]

CATALOG_BASES: Final = ("/iceberg", "/_iceberg", "/api/catalog", "")
"""Base paths of the catalog: its own, the alias of S3 Tables clients, the one that clients of Polaris are given, and
the root, where the documents of Polaris and of Iceberg put the routes."""


class Route(NamedTuple):
    """One operation on the wire."""

    name: str
    """As logs and metrics show it: the operation's id in the contract."""
    method: str
    path: str
    """Segments behind the mount; `{…}` is one of any value."""
    handle: Handler
    is_standard: bool = True
    """Whether the contract has it: then its template is among `endpoints` in the configuration."""
    changes: bool = False
    """Whether a repeated request with the same Idempotency-Key gets the first one's answer."""
    replay: Replay | None = None
    """How that answer is made of the table or view with an id, where it is not as the contract's answers are."""
    is_large: bool = False
    """Whether its documents hold whole schemas or lists of changes."""
    actions: Sequence[Action] = ()
    """One of these is asked about, whatever the document holds: callers that can do none are refused before it."""

    @property
    def endpoint(self) -> str:
        """As the contract spells it."""
        return f"{self.method} {self.path.replace('{warehouse}', '{prefix}')}"


class Mount(NamedTuple):
    """Routes, and the base path that they are behind."""

    base: str
    root: str
    """How all paths of the routes begin: `/v1/`."""
    routes: RouteTable
    edge: str = "iceberg"
    """What the protocol is called in the log of requests."""

    @property
    def prefix(self) -> str:
        """How all paths that come by it begin."""
        return self.base + self.root


class MatchedRoute(NamedTuple):
    """The route of a request, and the names in its path."""

    route: Route
    names: Mapping[str, str]


class RouteTable:
    """All routes of one API."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._tree: PathTree[tuple[Route, Sequence[str]]] = PathTree()
        for route in routes:
            segments = route.path.strip("/").split("/")
            names = [segment[1:-1] for segment in segments if segment.startswith("{")]
            self._tree.add(route.method, route.path, (route, names))

    def find(self, method: str, path: str) -> MatchedRoute:
        """The route of a path behind its mount. Raises CatalogFault: 404 for no such path, 405 for no such method."""
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
