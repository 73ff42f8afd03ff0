"""Calls listeners before operations."""

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
DECISION_SECONDS: Final = 30.0
"""Time limit of a decision. HTTP hooks have a shorter one."""


class Listeners:
    """All listeners, called in the order of the settings. The first veto decides."""

    __slots__ = ("_by_operation", "_operations")

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        self._by_operation: dict[Operation, tuple[Listener, ...]] = {}
        for operation in Operation:
            subscribed = tuple(listener for listener in listeners if operation in listener.operations)
            if subscribed:
                self._by_operation[operation] = subscribed
        self._operations = frozenset(self._by_operation)

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations that have listeners."""
        return self._operations

    async def check(self, intents: Sequence[Intent]) -> None:
        """Return if no listener vetoes. Raises Vetoed with the reason; Unavailable if a listener fails.

        Several intents belong to one request, which is allowed or refused as a whole.
        """
        for intent in intents:
            for listener in self._by_operation.get(intent.operation, ()):
                reason = await _decision(listener, intent)
                if reason is not None:
                    shown = reason.strip()[:MAX_REASON_CHARS] or "no reason was given"
                    raise Vetoed(f"vetoed by {listener.name}: {shown}. operation={intent.operation}")


async def _decision(listener: Listener, intent: Intent) -> str | None:
    try:
        async with asyncio.timeout(DECISION_SECONDS):
            return await listener.before(intent)
    except TimeoutError as error:
        raise _undecided(listener, intent) from error
    except LakebedError:
        raise
    except Exception as error:
        # Third-party code: an operation that it would have refused must not proceed because it crashed.
        log.exception("listener crashed", extra={"listener": listener.name, "operation": intent.operation})
        raise _undecided(listener, intent) from error


def _undecided(listener: Listener, intent: Intent) -> Unavailable:
    return Unavailable(f"listener {listener.name} did not decide; nothing was done. operation={intent.operation}")
