"""Finds processes that hang: relieves them of their connections, then kills them.

Each child counts heartbeats from its event loop. A child that is silent for `UNRESPONSIVE_SECONDS` is handed no more
connections, and those that it has not taken go to others. One that is silent for `server.hang_timeout` is killed; the
supervisor replaces it as any other that ended.
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
        """When it is to look again."""
        return self._ticked + TICK_SECONDS

    def look(self, children: Collection[ChildProcess], now: float) -> None:
        """Judge the children that are ready, if it is time to."""
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
        """Take the connections back that wait for a worker without heartbeats, if there are others."""
        if any(each.ready and each.pulse.is_responsive for each in workers):
            for each in workers:
                if not each.pulse.is_responsive:
                    self._handover.take_back(each)

    def _kill(self, children: Collection[ChildProcess]) -> None:
        """Kill a child that has been silent for too long.

        One at a time: children that all wait for the same disk cannot be killed before it answers, and when it does
        only the first is lost.
        """
        if any(child.is_killed for child in children):
            return
        for child in children:
            if child.ready and child.pulse.silent_seconds >= self._timeout_seconds:
                log.error("process hangs and is killed", extra=_facts(child))
                child.is_killed = True
                os.kill(child.pid, signal.SIGKILL)
                return


def _report(child: ChildProcess) -> None:
    """Log that the child stopped responding, or that it responds again."""
    is_silent = not child.pulse.is_responsive
    if is_silent and not child.is_reported:
        log.warning("process does not respond", extra=_facts(child))
    elif child.is_reported and not is_silent:
        log.info("process responds again", extra=_facts(child))
    child.is_reported = is_silent


def _facts(child: ChildProcess) -> dict[str, object]:
    return {
        "role": child.role.title,
        "pid": child.pid,
        "child": child.number,
        "silent_seconds": round(child.pulse.silent_seconds, 1),
    }
