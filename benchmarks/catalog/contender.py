"""One of the writers that contend for a table: `python -m benchmarks.catalog.contender ORDERS`.

It reads its orders, says that it is ready, waits for a line on standard input, works, and prints its outcome.
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
_PIECE: Final = 1 << 18
_GIVE_UP: Final = 20
"""Wrong answers after which a writer stops asking."""


class Orders(msgspec.Struct, frozen=True):
    """What a writer is to do; requests are complete."""

    address: str
    seconds: float
    commits: list[list[bytes]]
    """Of each table: the appends that follow the first, which was committed before."""
    loads: list[bytes]
    """One a table."""


class Outcome(msgspec.Struct, frozen=True):
    """What a writer did."""

    committed_seconds: list[float]
    """How long each commit of its own took."""
    conflicts: int
    elapsed_seconds: float
    cpu_seconds: float
    errors: dict[str, int]
    first_error_answer: str


class Connection:
    """One keep-alive connection: a request out, its response in. As little as that takes, so that it costs little."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and body of the response. Raises ConnectionError."""
        self._socket.sendall(request)
        got = b""
        while (end := got.find(b"\r\n\r\n")) < 0:
            got += self._more()
        head, body = got[: end + 2], got[end + 4 :]
        status = int(head[9:12])
        if _CHUNKED.search(head):
            while not body.endswith(b"0\r\n\r\n"):
                body += self._more()
            return status, _joined(body)
        length = _LENGTH.search(head)
        missing = (int(length[1]) if length else 0) - len(body)
        pieces = [body]
        while missing > 0:
            pieces.append(self._more())
            missing -= len(pieces[-1])
        return status, b"".join(pieces)

    def _more(self) -> bytes:
        piece = self._socket.recv(_PIECE)
        if not piece:
            raise ConnectionError("the server closed the connection in an response")
        return piece


def _joined(body: bytes) -> bytes:
    """A body without the lengths of its chunks."""
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        length = int(body[at:end].partition(b";")[0], 16)
        if not length:
            return b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + length])
        at = end + 2 + length + 2


def work(orders: Orders) -> Outcome:
    """Go for append after append until the time is up, or all are committed."""
    connection = Connection(orders.address)
    committed: list[float] = []
    errors: dict[str, int] = {}
    conflicts, first_error_answer, table, following = 0, "", 0, 0
    cpu, begin = time.process_time(), time.monotonic()
    while table < len(orders.commits) and time.monotonic() - begin < orders.seconds:
        if following >= len(orders.commits[table]):
            table, following = table + 1, 0
            continue
        sent = time.monotonic()
        status, body = connection.send(orders.commits[table][following])
        if status == 200:
            committed.append(time.monotonic() - sent)
            following += 1
            continue
        where = f"commit: status {status}"
        if status == 409:
            conflicts += 1
            status, body = connection.send(orders.loads[table])
            where = f"load: status {status}"
            found = _SEQUENCE.search(body)
            if status == 200 and found is not None:
                following = int(found[1]) - 1
                continue
        errors[where] = errors.get(where, 0) + 1
        first_error_answer = first_error_answer or body[:1200].decode(errors="replace")
        if sum(errors.values()) >= _GIVE_UP:
            break
    return Outcome(
        committed_seconds=committed,
        conflicts=conflicts,
        elapsed_seconds=time.monotonic() - begin,
        cpu_seconds=time.process_time() - cpu,
        errors=errors,
        first_error_answer=first_error_answer,
    )


def main() -> None:
    """Wait for the others, then work."""
    orders = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Orders)
    print("ready", flush=True)
    sys.stdin.readline()
    print(msgspec.json.encode(work(orders)).decode(), flush=True)


if __name__ == "__main__":
    main()
