"""A running server under test, the load program and request bodies."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.endpoint import Body, Endpoint, Request
from benchmarks.loadtool import LoadTool, Report
from benchmarks.samples import Sample, sampled
from benchmarks.servers import Server


@dataclass(frozen=True, slots=True)
class Bodies:
    """Random bodies to send, stored as files."""

    folder: Path
    _known: dict[int, Body] = field(default_factory=dict)

    def noise(self, size: int) -> Body:
        """Return the body of that size, the same in every run."""
        if size not in self._known:
            self._known[size] = self.of(random.Random(size).randbytes(size))
        return self._known[size]

    def of(self, content: bytes) -> Body:
        """Store these bytes as a body."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.folder / sha256[:24]
        path.write_bytes(content)
        return Body(path, len(content), sha256)


@dataclass(frozen=True, slots=True)
class Site:
    """One server of a comparison."""

    server: Server
    tool: LoadTool
    bodies: Bodies

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint

    def create_bucket(self, name: str) -> None:
        self.endpoint.call(Request("PUT", f"/{name}"))

    def measure(self, work: Callable[[], Report]) -> Sample:
        """Run `work` and add the server's processor time."""
        return sampled([self.server], work)
