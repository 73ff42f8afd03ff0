"""Servers under test, Lakebed and MinIO: how each is started, and what its acknowledgement of a write means."""

from __future__ import annotations

import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixtures.minio import find_or_build_minio

import lakebed as package
from benchmarks import processes
from benchmarks.endpoint import Endpoint
from benchmarks.signing import Credentials

ROOT = Path(__file__).resolve().parents[1]
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to start one kind of server."""

    name: str
    version: str
    durability: str
    """What is on stable storage when a write is acknowledged."""
    command: Callable[[Path, int], list[str]]
    """Takes the data folder and the port."""
    environment: Callable[[Path, int, Credentials], Mapping[str, str]]
    ready_path: str
    signs_requests: bool = True
    """Whether clients sign requests."""


def lakebed(workers: int = WORKERS) -> Recipe:
    """Lakebed, from this checkout."""
    program = Path(sys.executable).with_name("lakebed")
    return Recipe(
        name="Lakebed",
        version=_lakebed_version(),
        durability=(
            "small objects: fdatasync of the metadata log, which holds them; others: fdatasync of the body, fsync of "
            "its folder, fdatasync of the metadata log; concurrent writers share a sync of the log"
        ),
        command=lambda folder, port: [
            *(str(program), "serve", "--data", str(folder)),
            *("--listen", f"127.0.0.1:{port}", "--workers", str(workers)),
        ],
        environment=lambda folder, port, credentials: {
            "LAKEBED_ROOT_ACCESS_KEY": credentials.access_key,
            "LAKEBED_ROOT_SECRET_KEY": credentials.secret_key,
        },
        ready_path="/health/ready",
    )


def minio(cores: int = WORKERS) -> Recipe:
    """MinIO with its defaults, on as many cores as Lakebed has workers."""
    program = find_or_build_minio()
    return Recipe(
        name="MinIO",
        version=_minio_version(program),
        durability=(
            "its defaults: small objects: fdatasync of the metadata file, which holds them; others: fdatasync of the "
            "body, metadata file written with O_DSYNC; folders are not synced after a rename"
        ),
        command=lambda folder, port: [str(program), "server", "--quiet", "--address", f"127.0.0.1:{port}", str(folder)],
        environment=lambda folder, port, credentials: {
            "MINIO_ROOT_USER": credentials.access_key,
            "MINIO_ROOT_PASSWORD": credentials.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_API_SELECT_PARQUET": "on",
            "GOMAXPROCS": str(cores),
        },
        ready_path="/minio/health/cluster",
    )


@dataclass(slots=True)
class Server:
    """A server with its own folder and port; it can be stopped and started again."""

    recipe: Recipe
    folder: Path
    address: str
    credentials: Credentials = field(repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @property
    def endpoint(self) -> Endpoint:
        """The address, with credentials if requests are signed."""
        return Endpoint(self.address, self.credentials if self.recipe.signs_requests else None)

    @property
    def pid(self) -> int:
        """The id of the main process; workers are its children."""
        if self._process is None:
            raise RuntimeError(f"server not running. server={self.recipe.name}")
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the main process runs."""
        return self._process is not None and self._process.poll() is None

    def log_tail(self) -> str:
        """Return the end of the server's log."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def start(self, timeout_seconds: float = 120) -> float:
        """Start and wait until ready; return the seconds that took."""
        port = int(self.address.rsplit(":", 1)[1])
        data = self.data
        data.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.recipe.command(data, port),
                env={**os.environ, **self.recipe.environment(data, port, self.credentials)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while not self._is_ready():
            if not self.is_alive or time.monotonic() - begin > timeout_seconds:
                self.stop()
                raise RuntimeError(f"server did not become ready. server={self.recipe.name} log={self.log_tail()}")
            time.sleep(0.005)
        return time.monotonic() - begin

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            connection.request("GET", self.recipe.ready_path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """Stop with SIGTERM, after 30 s with SIGKILL."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def cpu_seconds(self) -> float:
        """Return the processor time of all processes so far."""
        return processes.cpu_seconds(self.pid)


@contextmanager
def running(recipe: Recipe, folder: Path) -> Iterator[Server]:
    """Run a server on a free port with random credentials."""
    credentials = Credentials("BENCH" + secrets.token_hex(6).upper(), secrets.token_hex(20))
    server = Server(recipe, folder, f"127.0.0.1:{free_port()}", credentials)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _lakebed_version() -> str:
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return f"{package.__version__} ({commit.stdout.strip() or 'no commit'})"


def _minio_version(program: Path) -> str:
    """Read the module version from the binary: a server built by `go install` does not know its version."""
    listing = subprocess.run(["go", "version", "-m", program], capture_output=True, text=True).stdout
    found = re.search(r"\bmod\s+github\.com/minio/minio\s+(\S+)", listing)
    return found[1] if found else "unknown"
