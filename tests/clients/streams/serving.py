"""Servers with streams, and connections of pyfluss to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow

import fluss
from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, RunningServer, start_server

ROWS = pyarrow.schema([("id", pyarrow.int32()), ("name", pyarrow.string()), ("score", pyarrow.float64())])
"""The usual schema."""


@dataclass(frozen=True)
class StreamServer:
    """A server and the port of its streams."""

    server: RunningServer
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextmanager
def running_streams(data: Path, *flags: str) -> Iterator[StreamServer]:
    """Run a server with streams."""
    started = start_streams(data, *flags)
    try:
        yield started
    finally:
        if started.server.process.poll() is None:
            started.server.kill()


def start_streams(
    data: Path,
    *flags: str,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
    within_seconds: float = 60.0,
) -> StreamServer:
    """Start a server that serves streams."""
    port = port or free_port()
    listen = ("--streams-listen", f"127.0.0.1:{port}")
    server = start_server(data, *listen, *flags, workers=1, environment=environment, within_seconds=within_seconds)
    return StreamServer(server, port)


def config(address: str, user: str = ROOT_ACCESS_KEY, secret: str = ROOT_SECRET_KEY, **others: str) -> Any:
    """Connection settings of pyfluss."""
    return fluss.Config(
        {
            "bootstrap.servers": address,
            "security.protocol": "sasl",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": user,
            "security.sasl.password": secret,
            **others,
        }
    )


@asynccontextmanager
async def connected(
    streams: StreamServer, user: str = ROOT_ACCESS_KEY, secret: str = ROOT_SECRET_KEY, **others: str
) -> AsyncIterator[Any]:
    """Open a connection."""
    made = await fluss.FlussConnection.create(config(streams.address, user, secret, **others))
    try:
        yield made
    finally:
        await made.close()


async def make_table(
    connection: Any,
    path: Any,
    schema: pyarrow.Schema = ROWS,
    *,
    primary_key: list[str] | None = None,
    auto_increment: str | None = None,
    **described: Any,
) -> Any:
    """Create a table and open it."""
    columns = fluss.Schema(schema, primary_keys=primary_key, auto_increment_column=auto_increment)
    await connection.get_admin().create_table(path, fluss.TableDescriptor(columns, **described))
    return await connection.get_table(path)


async def read_records(table: Any, count: int, *, buckets: int = 1, project: list[str] | None = None) -> list[Any]:
    """The first `count` records of a table."""
    scan = table.new_scan()
    if project is not None:
        scan = scan.project_by_name(project)
    scanner = await scan.create_log_scanner()
    scanner.subscribe_buckets(dict.fromkeys(range(buckets), fluss.EARLIEST_OFFSET))
    return await drain(scanner, count)


async def drain(scanner: Any, count: int) -> list[Any]:
    """The next `count` records of a scanner. Raises AssertionError if they do not arrive."""
    found: list[Any] = []
    for _ in range(60):
        found += list(await scanner.poll(1000))
        if len(found) >= count:
            return found
    raise AssertionError(f"records did not arrive. expected={count} found={len(found)}")


def error_code(raised: Any) -> int:
    """The protocol's error code of an exception."""
    return int(raised.value.error_code)
