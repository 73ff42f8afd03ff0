"""Resolves half-open byte ranges against an object's size."""

from __future__ import annotations

from ..core.errors import InvalidRange

__all__ = ["resolve_range", "resolve_stream"]


def resolve_range(size: int, start: int, end: int) -> tuple[int, int]:
    """The range, limited to the object's end. Raises InvalidRange as `ObjectStorage.get_range`."""
    if start < 0 or start >= end or start >= size:
        raise InvalidRange(
            f"range not satisfiable. start={start} end={end} size={size}", size=size, requested=f"{start}-{end}"
        )
    return start, min(end, size)


def resolve_stream(size: int, start: int, end: int | None) -> tuple[int, int]:
    """The same with an open end; an empty object read from 0 is empty instead of an error."""
    if size == 0 and start == 0 and (end is None or end > 0):
        return 0, 0
    return resolve_range(size, start, max(size, start + 1) if end is None else end)
