"""Asks listeners before an operation. What nobody wants to be asked about costs one look into a set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from lakebed.core.errors import LakebedError, Unavailable, Vetoed
from lakebed.core.operations import Operation

from .model import Intent, Listener

log = logging.getLogger("lakebed.governance")

MAX_REASON_CHARS: Final = 2000
ANSWER_SECONDS: Final = 30.0
"""How long a listener may think. One over the network has a shorter time of its own."""


class Listeners:
    """All listeners of a server, asked one after the other in the order of the settings. The first veto decides."""

    __slots__ = ("_by_operation", "_operations")

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        self._by_operation: dict[Operation, tuple[Listener, ...]] = {}
        for operation in Operation:
            wanted = tuple(listener for listener in listeners if operation in listener.operations)
            if wanted:
                self._by_operation[operation] = wanted
        self._operations = frozenset(self._by_operation)

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations that somebody wants to be asked about."""
        return self._operations

    async def check(self, intents: Sequence[Intent]) -> None:
        """Return if nobody minds. Raises Vetoed with the reason; Unavailable when a listener could not be asked.

        Several intents are of one request: it happens wholly or not at all.
        """
        for intent in intents:
            for listener in self._by_operation.get(intent.operation, ()):
                reason = await _answer(listener, intent)
                if reason is not None:
                    told = reason.strip()[:MAX_REASON_CHARS] or "no reason was given"
                    raise Vetoed(f"vetoed by {listener.name}: {told}. operation={intent.operation}")


async def _answer(listener: Listener, intent: Intent) -> str | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await listener.before(intent)
    except TimeoutError as error:
        raise _undecided(listener, intent) from error
    except LakebedError:
        raise
    except Exception as error:
        # Somebody else's code. What it would have refused must not happen because it is broken.
        log.exception("a listener crashed", extra={"listener": listener.name, "operation": intent.operation})
        raise _undecided(listener, intent) from error


def _undecided(listener: Listener, intent: Intent) -> Unavailable:
    return Unavailable(f"listener {listener.name} did not decide; nothing was done. operation={intent.operation}")
