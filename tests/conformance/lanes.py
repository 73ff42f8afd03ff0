"""Lanes: parallel servers that each run one test of the suite at a time, and are replaced when a test leaves buckets.

Tests create buckets with fixed names and count listed objects. So concurrent tests never share a server, and leftovers
of a failed test never affect the next.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import botocore.session
from botocore.config import Config

from tests.fixtures.server import RunningServer, start_server
from tests.fixtures.versitygw import Run, Suite

TIMEOUT_SECONDS: Final = 120.0


class Lane:
    """One server at a time, for one test at a time."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self._suite = suite
        self._folder = folder
        self._started = 0
        self._server: RunningServer | None = None
        self._client: Any = None  # Any: botocore's clients are untyped

    def run(self, name: str) -> Run:
        """Run a test on a server without buckets."""
        server = self._server or self._start()
        run = self._suite.run(
            name, server.endpoint, server.access_key, server.secret_key, timeout_seconds=TIMEOUT_SECONDS
        )
        if not run.passed or self._client.list_buckets()["Buckets"]:
            self.close()
        return run

    def close(self) -> None:
        """Kill the server."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._server is not None:
            self._server.kill()
            self._server = None

    def _start(self) -> RunningServer:
        self._started += 1
        server = self._server = start_server(self._folder / f"data-{self._started}", workers=1)
        self._client = botocore.session.Session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=server.endpoint,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
            config=Config(s3={"addressing_style": "path"}),
        )
        return server


def run_all(suite: Suite, names: Iterable[str], folder: Path, *, lanes: int = 2) -> list[Run]:
    """Run every test, `lanes` at a time; sorted by name."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    runs: list[Run] = []
    faults: list[BaseException] = []

    def work(lane: Lane) -> None:
        try:
            while not faults:
                runs.append(lane.run(waiting.get_nowait()))
        except queue.Empty:
            return
        except BaseException as fault:
            faults.append(fault)  # raised in the caller: a thread's exception is lost
        finally:
            lane.close()

    threads = [threading.Thread(target=work, args=(Lane(suite, folder / f"lane-{n}"),)) for n in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return sorted(runs, key=lambda run: run.name)
