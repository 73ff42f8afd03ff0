"""Parses request bodies: small ones where they are, large ones in a thread, so that other requests go on meanwhile.

A parser that calls back into Python (XML) shares the interpreter with the event loop every few milliseconds. One call
into C (JSON) does not; what bounds it is the number of values, which `core.json_bounds` checks before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

INLINE_BYTES: Final = 64 * 1024
"""Largest body that is parsed on the event loop."""


async def parse_body(parse: Callable[[bytes], T], body: bytes) -> T:
    """What `parse` makes of a body. Raises what it raises."""
    if len(body) <= INLINE_BYTES:
        return parse(body)
    return await asyncio.to_thread(parse, body)
