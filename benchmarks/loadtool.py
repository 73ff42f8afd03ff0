"""The load program: compiled once from `load/`, then run with a plan of prepared requests."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.cache import build_once
from benchmarks.endpoint import Body, Endpoint, Request, request_head
from benchmarks.signing import Signing

SOURCES = Path(__file__).parent / "load"
BATCH_REQUESTS = 5_000
"""Maximum number of requests in a set-up plan."""


class Report(msgspec.Struct, frozen=True):
    """Measurements of the load program."""

    operations: int
    bytes: int
    elapsed_seconds: float
    p50_seconds: float
    p99_seconds: float
    slowest_seconds: float
    cpu_seconds: float
    errors: dict[str, int]
    first_error_answer: str
    etags: list[str] = msgspec.field(default_factory=list)
    chains: list[int] = msgspec.field(default_factory=list)
    """Number of expected responses in each chain."""
    conflicts: int = 0
    """Commit conflicts, where writers contend."""


def build() -> Path:
    """Return the program's path; compile it with Go if its source has changed."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())

    def compile_program(staging: Path) -> Path:
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        if go is None:
            raise RuntimeError("go not found on PATH: the load program and MinIO are built with it")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
        subprocess.run([go, "build", "-o", staging / "load", "."], cwd=SOURCES, env=environment, check=True)
        return staging / "load"

    return build_once(f"bin/load-{digest.hexdigest()[:12]}", compile_program)


@dataclass(frozen=True, slots=True)
class LoadTool:
    """Runs plans, which are stored in `folder` while they run."""

    binary: Path
    folder: Path

    def start(
        self,
        endpoint: Endpoint,
        requests: Sequence[Request],
        signing: Signing = Signing.HEADER,
        *,
        connections: int = 8,
        seconds: float = 0,
        rate: int = 0,
        etags: bool = False,
        once: bool = False,
        chains: Sequence[int] = (),
    ) -> Load:
        """Sign `requests` and start sending them: repeatedly for `seconds`, or each once if `seconds` is 0.

        `once` sends each at most once in that time. `chains` are the lengths of runs of dependent requests: each
        run has its own connection, is sent once and in order, and ends at the first unexpected response. `rate` limits
        each connection to so many bytes a second in each direction.
        """
        signer = endpoint.signer()
        files = list(dict.fromkeys(request.body.path for request in requests if isinstance(request.body, Body)))
        positions = {path: index for index, path in enumerate(files)}
        plan = {
            "address": endpoint.address,
            "connections": connections if seconds else min(connections, len(requests)),
            "seconds": seconds,
            "rate": rate,
            "etags": etags,
            "once": once,
            "chains": chains,
            "bodies": [str(path) for path in files],
            "requests": [
                {
                    "head": request_head(signer, request, signing),
                    "tail": request.body if isinstance(request.body, bytes) else None,
                    "body": positions[request.body.path] if isinstance(request.body, Body) else -1,
                    "bodyless": request.method == "HEAD",
                    "status": request.status,
                    "shortest": request.length[0],
                    "longest": request.length[1],
                }
                for request in requests
            ],
        }
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".json", delete=False) as file:
            file.write(msgspec.json.encode(plan))
        return Load(subprocess.Popen([self.binary, file.name], stdout=subprocess.PIPE), Path(file.name))

    def run(
        self,
        endpoint: Endpoint,
        requests: Sequence[Request],
        signing: Signing = Signing.HEADER,
        *,
        connections: int = 8,
        seconds: float = 0,
        etags: bool = False,
        once: bool = False,
        chains: Sequence[int] = (),
    ) -> Report:
        """Start a plan and wait for its report."""
        return self.start(
            endpoint,
            requests,
            signing,
            connections=connections,
            seconds=seconds,
            etags=etags,
            once=once,
            chains=chains,
        ).wait()

    def deliver(self, endpoint: Endpoint, requests: Sequence[Request], connections: int = 32) -> None:
        """Send each request once, for set-up. Raises RuntimeError on any unexpected response."""
        for start in range(0, len(requests), BATCH_REQUESTS):
            batch = requests[start : start + BATCH_REQUESTS]
            report = self.run(endpoint, batch, connections=connections)
            if report.errors or report.operations != len(batch):
                raise RuntimeError(
                    f"set-up failed. errors={report.errors} response={report.first_error_answer[-500:]!r}"
                )


@dataclass(frozen=True, slots=True)
class Load:
    """A running plan."""

    process: subprocess.Popen[bytes]
    plan: Path

    def wait(self) -> Report:
        """Wait for the report."""
        try:
            output, _ = self.process.communicate()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.plan.unlink()
        if self.process.returncode != 0:
            raise RuntimeError(f"load program failed. code={self.process.returncode}")
        return msgspec.json.decode(output, type=Report)
