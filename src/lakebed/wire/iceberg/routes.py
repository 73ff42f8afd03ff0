"""Which operation answers which method and path: a tree of path segments, walked once a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.wire.http.message import Response

from .errors import CatalogFault
from .request import CatalogRequest, decode_segment
from .services import CatalogServices

Handler = Callable[[CatalogServices, CatalogRequest], Awaitable[Response]]
Replay = Callable[[CatalogServices, CatalogRequest, str], Awaitable[Response]]

MOUNTS: Final = ("/iceberg", "/_iceberg", "/api/catalog")
"""Base paths of the catalog: its own, the alias of S3 Tables clients, and the one that clients of Polaris are given."""


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
    """Whether its documents hold whole schemas or lists of changes. Its handler parses them off the event loop."""

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


class Found(NamedTuple):
    """The route of a request, and the names in its path."""

    route: Route
    names: Mapping[str, str]


class _Node:
    __slots__ = ("fixed", "routes", "variable")

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.variable: _Node | None = None
        self.routes: dict[str, tuple[Route, list[str]]] = {}


class RouteTable:
    """All routes of the catalog."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in routes:
            node, names = self._root, []
            for segment in route.path.strip("/").split("/"):
                if segment.startswith("{"):
                    names.append(segment[1:-1])
                    node.variable = node.variable or _Node()
                    node = node.variable
                else:
                    node = node.fixed.setdefault(segment, _Node())
            if route.method in node.routes:
                raise ValueError(f"two routes for {route.method} {route.path}")
            node.routes[route.method] = route, names

    def find(self, method: str, path: str) -> Found:
        """The route of a path behind its mount. Raises CatalogFault: 404 for no such path, 405 for no such method."""
        segments = path.strip("/").split("/")
        values: list[str] = []
        node = _walk(self._root, segments, 0, values)
        if node is None:
            raise CatalogFault(404, "NoSuchResourceException", f"no such path in the catalog: {path}")
        found = node.routes.get(method)
        if found is None:
            allowed = ", ".join(sorted(node.routes))
            raise CatalogFault(405, "BadRequestException", f"{method} is not allowed here; {allowed} is. path={path}")
        route, names = found
        return Found(route, {name: decode_segment(value) for name, value in zip(names, values, strict=True)})


def _walk(node: _Node, segments: Sequence[str], depth: int, values: list[str]) -> _Node | None:
    """Down the tree, fixed segments first: `buckets` names itself before it names a warehouse."""
    if depth == len(segments):
        return node if node.routes else None
    segment = segments[depth]
    fixed = node.fixed.get(segment)
    if fixed is not None:
        found = _walk(fixed, segments, depth + 1, values)
        if found is not None:
            return found
    if node.variable is not None and segment:
        values.append(segment)
        found = _walk(node.variable, segments, depth + 1, values)
        if found is not None:
            return found
        values.pop()
    return None
