"""Detects hung processes, takes their waiting connections away, and kills them.

Each child counts heartbeats from its event loop. A child without heartbeats for `UNRESPONSIVE_SECONDS` gets no more
connections, and those that it has not received go to others. After `server.hang_timeout` it is killed, and the
supervisor replaces it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Collection

from .handover import ConnectionHandover
from .process_table import ProcessTable
from .responsiveness import TICK_SECONDS
from .roles import ChildProcess

log = logging.getLogger("lakebed.server")


class HangWatch:
    """Watches the heartbeats of a server's children."""

    def __init__(self, table: ProcessTable, handover: ConnectionHandover, timeout_seconds: float, now: float) -> None:
        """`now`, here and below, is monotonic time."""
        self._table = table
        self._handover = handover
        self._timeout_seconds = timeout_seconds
        self._ticked = now

    @property
    def due(self) -> float:
        """The time of the next check."""
        return self._ticked + TICK_SECONDS

    def check(self, children: Collection[ChildProcess], now: float) -> None:
        """Check the ready children, if due."""
        if now < self.due:
            return
        elapsed_seconds, self._ticked = now - self._ticked, now
        for child in children:
            if child.ready:
                child.pulse.observe(self._table.beats(child.number), elapsed_seconds)
                _report(child)
        self._relieve([child for child in children if child.role.takes_connections])
        self._kill(children)

    def _relieve(self, workers: Collection[ChildProcess]) -> None:
        """Take back the connections waiting for an unresponsive worker, if another worker responds."""
        if any(each.ready and each.pulse.is_responsive for each in workers):
            for each in workers:
                if not each.pulse.is_responsive:
                    self._handover.take_back(each)

    def _kill(self, children: Collection[ChildProcess]) -> None:
        """Kill a hung child.

        One at a time: children that all wait for the same disk cannot be killed before it responds, and when it does,
        only the first is lost.
        """
        if any(child.is_killed for child in children):
            return
        for child in children:
            if child.ready and child.pulse.silent_seconds >= self._timeout_seconds:
                log.error("process hangs, killing it", extra=_fields(child))
                child.is_killed = True
                os.kill(child.pid, signal.SIGKILL)
                return


def _report(child: ChildProcess) -> None:
    """Log that the child stopped responding, or resumed."""
    is_silent = not child.pulse.is_responsive
    if is_silent and not child.is_reported:
        log.warning("process does not respond", extra=_fields(child))
    elif child.is_reported and not is_silent:
        log.info("process responds again", extra=_fields(child))
    child.is_reported = is_silent


def _fields(child: ChildProcess) -> dict[str, object]:
    return {
        "role": child.role.title,
        "pid": child.pid,
        "child": child.number,
        "silent_seconds": round(child.pulse.silent_seconds, 1),
    }
