"""The demo's server, a separate process in the demo's folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lakebed.core.errors import Unavailable

from .clients import boto3_client

_START_SECONDS: Final = 30.0
_DEBOUNCE: Final = "1s"


class DemoServer:
    """`lakebed serve` on free ports, with its root credentials."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.keys: dict[str, str] = {}
        """Root's, as keyword arguments of boto3's clients."""
        port, streams_port = _free_port(), _free_port()
        self._listen = f"127.0.0.1:{port}"
        self.endpoint = f"http://{self._listen}"
        self.streams_address = f"127.0.0.1:{streams_port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> str:
        """Start it with more flags, and wait until it is ready. Raises Unavailable."""
        started = time.monotonic()
        log = self.folder / "server.log"
        with log.open("ab") as output, _signals_deferred():
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "lakebed", "serve"),
                    *("--data", str(self.data), "--listen", self._listen),
                    *("--streams-listen", self.streams_address),
                    # Instead of 10 s, so that the demo does not wait for the scheduler.
                    *("--set", f"pipeline.debounce={_DEBOUNCE}"),
                    *flags,
                ],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._wait_until_ready(log)
        ready = time.monotonic() - started
        secrets = json.loads((self.data / "secrets.json").read_text())
        self.keys = {
            "aws_access_key_id": secrets["root_access_key"],
            "aws_secret_access_key": secrets["root_secret_key"],
        }
        return f"ready in {ready:.2f} s at {self.endpoint}; first-start keys in {self.data}/secrets.json"

    def kill(self) -> None:
        """Kill all its processes, as `kill -9` does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """Stop it in order, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=30)

    def client(self, service: str = "s3") -> Any:  # Any: boto3 has no types
        """A client of boto3 with root's keys."""
        return boto3_client(service, self.endpoint, self.keys)

    def _wait_until_ready(self, log: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.endpoint}/health/ready", timeout=1):  # noqa: S310  # a constant scheme
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.02)
        raise Unavailable(f"the server did not start; see {log}")


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Deliver SIGTERM and SIGINT afterwards: a server that is just being started could not be stopped."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for late in received:
        signal.raise_signal(late)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
