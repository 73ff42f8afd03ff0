"""Fixtures of the tests with pyfluss: a server with streams, connections to it, a new database."""

from __future__ import annotations

import socket
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

import fluss
from tests.clients.streams.serving import StreamServer, connected, running_streams


@pytest.fixture(scope="session")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamServer]:
    """A server shared by all tests that do not change it."""
    with running_streams(tmp_path_factory.mktemp("streams") / "data") as server:
        yield server


@pytest.fixture(autouse=True)
def _no_request_crashes(streams: StreamServer) -> Iterator[None]:
    """No request of a client makes a handler crash: a crash would be in the server log."""
    before = len(streams.server.log_text())
    yield
    log = streams.server.log_text()[before:]
    assert "Traceback" not in log, log


@pytest_asyncio.fixture
async def connection(streams: StreamServer) -> AsyncIterator[Any]:  # Any: pyfluss has no types that mypy sees
    """A connection as root."""
    async with connected(streams) as made:
        yield made


@pytest.fixture
def admin(connection: Any) -> Any:
    """Fluss' admin client, as root."""
    return connection.get_admin()


@pytest_asyncio.fixture
async def database(admin: Any) -> AsyncIterator[str]:
    """A new database."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    await admin.create_database(name)
    yield name
    await admin.drop_database(name, ignore_if_not_exists=True, cascade=True)


@pytest.fixture
def table_path(database: str) -> Any:
    """The path of a table that does not exist yet."""
    return fluss.TablePath(database, "t")


@pytest.fixture
def raw(streams: StreamServer) -> Iterator[socket.socket]:
    """A raw TCP connection."""
    with socket.create_connection(("127.0.0.1", streams.port), timeout=30) as made:
        yield made
