"""What a scenario works with: a running server, the load program, bodies to send, and a meter."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.s3.endpoint import Ask, Body, Endpoint
from benchmarks.s3.loadtool import LoadTool, Report
from benchmarks.s3.servers import Server


@dataclass(frozen=True, slots=True)
class Bodies:
    """Bytes to send, made once and kept as files; noise, so that nothing can compress them."""

    folder: Path
    _known: dict[int, Body] = field(default_factory=dict)

    def noise(self, size: int) -> Body:
        """The body of that size, the same in every run."""
        if size not in self._known:
            self._known[size] = self.of(random.Random(size).randbytes(size))
        return self._known[size]

    def of(self, content: bytes) -> Body:
        """A body of these bytes."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.folder / sha256[:24]
        path.write_bytes(content)
        return Body(path, len(content), sha256)


class Sample(msgspec.Struct, frozen=True):
    """One round on one server."""

    operations: int
    bytes: int
    elapsed_seconds: float
    p50_seconds: float
    p99_seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    errors: dict[str, int]
    first_error_answer: str


@dataclass(frozen=True, slots=True)
class Site:
    """One side of a comparison."""

    server: Server
    tool: LoadTool
    bodies: Bodies

    @property
    def endpoint(self) -> Endpoint:
        """Where the server listens."""
        return self.server.endpoint

    def create_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self.endpoint.call(Ask("PUT", f"/{name}"))

    def measure(self, work: Callable[[], Report]) -> Sample:
        """Run `work` and add the processor time the server took for it."""
        before = self.server.cpu_seconds()
        try:
            report = work()
        except RuntimeError as error:
            state = "running" if self.server.is_alive else "gone"
            error.add_note(f"{self.server.recipe.name} is {state}. log={self.server.log_tail()}")
            raise
        return Sample(
            operations=report.operations,
            bytes=report.bytes,
            elapsed_seconds=report.elapsed_seconds,
            p50_seconds=report.p50_seconds,
            p99_seconds=report.p99_seconds,
            server_cpu_seconds=self.server.cpu_seconds() - before,
            client_cpu_seconds=report.cpu_seconds,
            errors=report.errors,
            first_error_answer=report.first_error_answer,
        )
