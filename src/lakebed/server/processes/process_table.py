"""State and heartbeats of the server's processes, in shared memory.

The supervisor creates it before it forks. Each child counts its heartbeats, the supervisor writes the states, and every
worker reads them for `/health/ready`. Each word has one writer.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from lakebed.core.errors import Unavailable
from lakebed.wire.admin.app import ReadinessCheck

_WORD_BYTES: Final = 8
_WORDS_EACH: Final = 2


class ProcessState(IntEnum):
    """The state of a process, as determined by the supervisor."""

    STARTING = 0
    READY = 1
    UNRESPONSIVE = 2
    RESTARTING = 3
    """It ended several times within a minute; it counts as not ready, even while it runs."""


_REASONS: Final[Mapping[ProcessState, str]] = {
    ProcessState.STARTING: "not started yet; the server's log says why if it takes long",
    ProcessState.UNRESPONSIVE: "does not respond; it is replaced unless it recovers",
    ProcessState.RESTARTING: "restarts repeatedly; see the server's log",
}


class ProcessTable:
    """One entry per process, by its number; `roles` names the role of each."""

    def __init__(self, roles: Sequence[str]) -> None:
        self.roles = tuple(roles)
        self._words = memoryview(mmap.mmap(-1, _WORD_BYTES * _WORDS_EACH * len(self.roles))).cast("Q")

    def beat(self, number: int) -> None:
        """Count a heartbeat. For the process of that number only."""
        self._words[_WORDS_EACH * number] += 1

    def beats(self, number: int) -> int:
        """Heartbeats of the process of that number and of its predecessors."""
        return self._words[_WORDS_EACH * number]

    def set_state(self, number: int, state: ProcessState) -> None:
        """For the supervisor only."""
        self._words[_WORDS_EACH * number + 1] = state

    def state(self, number: int) -> ProcessState:
        """The last state from the supervisor."""
        return ProcessState(self._words[_WORDS_EACH * number + 1])

    def readiness_checks(self) -> dict[str, ReadinessCheck]:
        """A readiness check per role: ready while at least one of its processes is."""
        return {role: self._check(role) for role in dict.fromkeys(self.roles)}

    def _check(self, role: str) -> ReadinessCheck:
        numbers = [number for number, each in enumerate(self.roles) if each == role]

        async def check() -> None:
            states = [self.state(number) for number in numbers]
            if ProcessState.READY not in states:
                raise Unavailable(_REASONS[max(states)])

        return check
