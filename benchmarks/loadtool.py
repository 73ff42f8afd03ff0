"""The load program: built once from `load/`, then run with a plan of requests made in advance."""

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
AT_ONCE = 5_000
"""Requests of a plan that carry their bodies with them, at most, where they are sent for set-up."""


class Report(msgspec.Struct, frozen=True):
    """What the load program saw."""

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
    """How many requests of each chain were answered rightly."""
    conflicts: int = 0
    """Requests that came too late, where that is a right response."""


def build() -> Path:
    """The program's path, compiled with Go unless this very source was compiled before."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())

    def compile_it(staging: Path) -> Path:
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        if go is None:
            raise RuntimeError("the load program and MinIO are built with go, which was not found on PATH")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
        subprocess.run([go, "build", "-o", staging / "load", "."], cwd=SOURCES, env=environment, check=True)
        return staging / "load"

    return build_once(f"bin/load-{digest.hexdigest()[:12]}", compile_it)


@dataclass(frozen=True, slots=True)
class LoadTool:
    """Runs plans; `folder` holds them while they run."""

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
        """Sign `requests` and start sending them: round and round for `seconds`, or each once when that is 0.

        `once` sends each at most once in that time. `chains` are the lengths of runs of requests which follow from each
        other: each run has a connection of its own, is sent once and in order, and ends at the first wrong response.
        `rate` paces each connection to so many bytes a second, both ways.
        """
        signer = endpoint.signer()
        files = list(dict.fromkeys(request.body.path for request in requests if isinstance(request.body, Body)))
        places = {path: index for index, path in enumerate(files)}
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
                    "body": places[request.body.path] if isinstance(request.body, Body) else -1,
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
        """`start` and wait."""
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
        """Send each once for set-up; raises RuntimeError when any response is not as options."""
        for start in range(0, len(requests), AT_ONCE):
            batch = requests[start : start + AT_ONCE]
            report = self.run(endpoint, batch, connections=connections)
            if report.errors or report.operations != len(batch):
                raise RuntimeError(
                    f"set-up failed. errors={report.errors} response={report.first_error_answer[-500:]!r}"
                )


@dataclass(frozen=True, slots=True)
class Load:
    """A load under way."""

    process: subprocess.Popen[bytes]
    plan: Path

    def wait(self) -> Report:
        """The report, when it is done."""
        try:
            output, _ = self.process.communicate()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.plan.unlink()
        if self.process.returncode != 0:
            raise RuntimeError(f"the load program failed. code={self.process.returncode}")
        return msgspec.json.decode(output, type=Report)
