"""The sink of notifications, the same for every server: counts events and measures their latency.

`python -m benchmarks.events.sink PORT [BROKERS TOPIC]` accepts webhooks at `/events` or reads a Kafka topic. It
reports its counts over HTTP. Latency is from the event's time to its arrival; all processes are on one machine.
"""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

_START_SECONDS = 60.0


class _Object(msgspec.Struct):
    key: str
    sequencer: str = ""


class _S3(msgspec.Struct):
    object: _Object


class _Record(msgspec.Struct):
    eventTime: datetime
    s3: _S3


class _Body(msgspec.Struct):
    Records: list[_Record]


_decode = msgspec.json.Decoder(_Body).decode


class Seen(msgspec.Struct, frozen=True):
    """Events since the last reset."""

    messages: int
    distinct: int
    """Events without duplicates."""
    first_at: float
    last_at: float
    """By the machine's clock."""
    p50_ms: float
    p99_ms: float


class Tally:
    """Counts events."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._messages = 0
        self._events: set[int] = set()
        self._took = array("d")
        self._first = self._last = 0.0

    def add(self, body: bytes) -> None:
        """Count the events of a message."""
        now = time.time()
        self._messages += 1
        self._first = self._first or now
        self._last = now
        for record in _decode(body).Records:
            self._events.add(hash((record.s3.object.key, record.s3.object.sequencer)))
            self._took.append(max(0.0, now - record.eventTime.timestamp()) * 1000)

    @property
    def distinct(self) -> int:
        return len(self._events)

    def seen(self) -> Seen:
        """Return the counts so far."""
        took = sorted(self._took)
        p50, p99 = (took[int(len(took) * share)] if took else 0.0 for share in (0.5, 0.99))
        return Seen(self._messages, self.distinct, self._first, self._last, p50, p99)


class _Connection(asyncio.Protocol):
    """Reads requests whose bodies have a length; the servers under test send no others."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._buffer = bytearray()
        self._transport: Any = None  # Any: asyncio's own

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).lower()
            _, _, rest = head.partition(b"\r\ncontent-length:")
            length = int(rest.partition(b"\r\n")[0] or 0)
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            self._transport.write(self._respond(head.split(b" ", 2)[:2], body))

    def _respond(self, request_line: list[bytes], body: bytes) -> bytes:
        content = b""
        if request_line[1] == b"/seen":
            content = msgspec.json.encode(self._tally.seen())
        elif request_line[1] == b"/distinct":
            content = b"%d" % self._tally.distinct
        elif request_line[1] == b"/reset":
            self._tally.reset()
        elif request_line[0] == b"post" and body:
            self._tally.add(body)
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content


async def serve(port: int, brokers: str, topic: str) -> None:
    """Serve until cancelled."""
    tally = Tally()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(tally), "127.0.0.1", port)
    async with server, asyncio.TaskGroup() as group:
        if brokers:
            group.create_task(_read_topic(tally, brokers, topic))
        await server.serve_forever()


async def _read_topic(tally: Tally, brokers: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import TopicAlreadyExistsError

    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        with suppress(TopicAlreadyExistsError):
            await admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])
    finally:
        await admin.close()
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest", group_id=None)
    await consumer.start()
    try:
        async for message in consumer:
            if message.value:
                tally.add(message.value)
    finally:
        await consumer.stop()


@dataclass
class Sink:
    """A sink in a separate process."""

    port: int
    brokers: str = ""
    topic: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The webhook URL."""
        return f"http://127.0.0.1:{self.port}/events"

    def start(self) -> None:
        """Start the process and wait until it responds."""
        arguments = [sys.executable, "-m", "benchmarks.events.sink", str(self.port), self.brokers, self.topic]
        self._process = subprocess.Popen(arguments)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException):
                self.seen()
                return
            time.sleep(0.02)
        self.stop()
        raise RuntimeError("sink did not start")

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def seen(self) -> Seen:
        """Return the counts so far."""
        return msgspec.json.decode(self._get("/seen"), type=Seen)

    def reset(self) -> None:
        """Reset the counts."""
        self._get("/reset")

    def wait_for(self, events: int, *, seconds: float) -> Seen:
        """Wait for so many events, at most `seconds`; return the counts."""
        deadline = time.monotonic() + seconds
        # The count only: latencies require sorting, which takes processor time from the servers.
        while int(self._get("/distinct")) < events and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.seen()

    def _get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()


def main(arguments: list[str]) -> None:
    import uvloop

    port, brokers, topic = arguments
    uvloop.run(serve(int(port), brokers, topic))


if __name__ == "__main__":
    main(sys.argv[1:])
