"""Observes the processes of a server from outside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.fixtures.raw_http import Connection, RawResponse, request_bytes
from tests.fixtures.server import RunningServer

GUARD_SECONDS: Final = 60.0
"""A wait of a test fails after this time."""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + GUARD_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.01)


def workers_of(server: RunningServer) -> set[int]:
    """Process ids of the running workers."""
    return children_named(server, "lakebed-worker")


def deliveries_of(server: RunningServer) -> set[int]:
    """Process ids of the event delivery process: one, or none during a restart."""
    return children_named(server, "lakebed-events")


def children_named(server: RunningServer, name: str) -> set[int]:
    """Process ids of the children with that process name."""
    return {child for child in children_of(server) if _name_of(child) == name}


def children_of(server: RunningServer) -> set[int]:
    """Process ids of all running children of a server's supervisor."""
    pid = server.process.pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return set()
    return {int(child) for child in children if is_alive(int(child))}


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid: int) -> bool:
    """Whether the process runs: a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_ended(pids: Iterable[int]) -> None:
    """Wait until all of the processes have exited."""
    wait_until(lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}")


def kill_worker(pid: int) -> None:
    """Kill a worker and wait until its supervisor has noticed; before that it may still send it a connection."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), f"the end of {pid}")


def plain(method: str, target: str = "/") -> bytes:
    """An unsigned request."""
    return request_bytes(method, target, {"host": "127.0.0.1"})


def ask(server: RunningServer, request: bytes | None = None) -> RawResponse:
    """Send a request on a new connection."""
    with Connection(server.port) as connection:
        return connection.exchange(request or plain("GET"))


def worker_of(answer: RawResponse) -> str:
    """Identifies the worker that responded: request ids of a process share a random prefix."""
    return answer.request_id[:10]
