"""Finds the path template of a request in a tree of segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class PathMatch(NamedTuple, Generic[T]):
    """The template that matches a path."""

    methods: Mapping[str, T]
    """The route by HTTP method."""
    values: Sequence[str]
    """The segments at the template's variables, as they are in the path."""


class _Node(Generic[T]):
    __slots__ = ("fixed", "methods", "variable")

    def __init__(self) -> None:
        self.fixed: dict[str, _Node[T]] = {}
        self.variable: _Node[T] | None = None
        self.methods: dict[str, T] = {}


class PathTree(Generic[T]):
    """Templates such as `/v1/{warehouse}/namespaces`, where `{…}` is one segment of any value."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, method: str, template: str, served_by: T) -> None:
        """Add a template. Raises ValueError if another one has the same method and matches the same paths."""
        node = self._root
        for segment in _segments(template):
            if segment.startswith("{"):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.fixed.setdefault(segment, _Node())
        if method in node.methods:
            raise ValueError(f"duplicate route: {method} {template}")
        node.methods[method] = served_by

    def find(self, path: str) -> PathMatch[T] | None:
        """The template of a path. Trailing slashes are ignored. Fixed segments have precedence over variables."""
        values: list[str] = []
        node = _walk(self._root, _segments(path), 0, values)
        return None if node is None else PathMatch(node.methods, values)


def _segments(path: str) -> list[str]:
    return path.rstrip("/").removeprefix("/").split("/")


def _walk(node: _Node[T], segments: Sequence[str], depth: int, values: list[str]) -> _Node[T] | None:
    if depth == len(segments):
        return node if node.methods else None
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
