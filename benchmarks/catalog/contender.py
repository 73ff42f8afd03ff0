"""One of the writers that contend for a table: `python -m benchmarks.catalog.contender PLAN`.

It reads its plan, prints `ready`, waits for a line on standard input, runs, and prints its report.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

_SEQUENCE: Final = re.compile(rb'"last-sequence-number"\s*:\s*(\d+)')
_LENGTH: Final = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_CHUNK_BYTES: Final = 1 << 18
_MAX_ERRORS: Final = 20
"""A writer stops after so many unexpected responses."""


class WriterPlan(msgspec.Struct, frozen=True):
    """The requests of a writer, complete with heads."""

    address: str
    seconds: float
    commits: list[list[bytes]]
    """By table: the appends after the first, which is committed before the run."""
    loads: list[bytes]
    """One for each table."""


class WriterReport(msgspec.Struct, frozen=True):
    """Measurements of a writer."""

    committed_seconds: list[float]
    """Duration of each successful commit."""
    conflicts: int
    elapsed_seconds: float
    cpu_seconds: float
    errors: dict[str, int]
    first_error_answer: str


class Connection:
    """A minimal keep-alive connection, which takes little processor time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and body of its response. Raises ConnectionError."""
        self._socket.sendall(request)
        got = b""
        while (end := got.find(b"\r\n\r\n")) < 0:
            got += self._more()
        head, body = got[: end + 2], got[end + 4 :]
        status = int(head[9:12])
        if _CHUNKED.search(head):
            while not body.endswith(b"0\r\n\r\n"):
                body += self._more()
            return status, _join_chunks(body)
        length = _LENGTH.search(head)
        missing = (int(length[1]) if length else 0) - len(body)
        pieces = [body]
        while missing > 0:
            pieces.append(self._more())
            missing -= len(pieces[-1])
        return status, b"".join(pieces)

    def _more(self) -> bytes:
        piece = self._socket.recv(_CHUNK_BYTES)
        if not piece:
            raise ConnectionError("connection closed within a response")
        return piece


def _join_chunks(body: bytes) -> bytes:
    """Decode a chunked body."""
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        length = int(body[at:end].partition(b";")[0], 16)
        if not length:
            return b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + length])
        at = end + 2 + length + 2


def work(plan: WriterPlan) -> WriterReport:
    """Commit appends until the time is up or all are committed; after a conflict, load the table."""
    connection = Connection(plan.address)
    committed: list[float] = []
    errors: dict[str, int] = {}
    conflicts, first_error_answer, table, following = 0, "", 0, 0
    cpu, begin = time.process_time(), time.monotonic()
    while table < len(plan.commits) and time.monotonic() - begin < plan.seconds:
        if following >= len(plan.commits[table]):
            table, following = table + 1, 0
            continue
        sent = time.monotonic()
        status, body = connection.send(plan.commits[table][following])
        if status == 200:
            committed.append(time.monotonic() - sent)
            following += 1
            continue
        where = f"commit: status {status}"
        if status == 409:
            conflicts += 1
            status, body = connection.send(plan.loads[table])
            where = f"load: status {status}"
            found = _SEQUENCE.search(body)
            if status == 200 and found is not None:
                following = int(found[1]) - 1
                continue
        errors[where] = errors.get(where, 0) + 1
        first_error_answer = first_error_answer or body[:1200].decode(errors="replace")
        if sum(errors.values()) >= _MAX_ERRORS:
            break
    return WriterReport(
        committed_seconds=committed,
        conflicts=conflicts,
        elapsed_seconds=time.monotonic() - begin,
        cpu_seconds=time.process_time() - cpu,
        errors=errors,
        first_error_answer=first_error_answer,
    )


def main() -> None:
    """Wait for the other writers, then run."""
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=WriterPlan)
    print("ready", flush=True)
    sys.stdin.readline()
    print(msgspec.json.encode(work(plan)).decode(), flush=True)


if __name__ == "__main__":
    main()
