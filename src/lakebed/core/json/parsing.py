"""Parses request bodies: small ones on the event loop, large ones in a thread.

A parser that calls back into Python (XML) yields the interpreter every few milliseconds. One call into C (JSON) does
not; `core.json.bounds` limits its duration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

INLINE_BYTES: Final = 64 * 1024
"""Largest body that is parsed on the event loop."""


async def parse_body(parse: Callable[[bytes], T], body: bytes) -> T:
    """The parsed body. Raises what `parse` raises."""
    if len(body) <= INLINE_BYTES:
        return parse(body)
    return await asyncio.to_thread(parse, body)
