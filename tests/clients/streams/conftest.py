"""Fixtures of the tests with pyfluss: a server with streams, connections to it, a database of one's own."""

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
    """One server for all tests that only use it."""
    with running_streams(tmp_path_factory.mktemp("streams") / "data") as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_crashes_unseen(streams: StreamServer) -> Iterator[None]:
    """Whatever a client sends, the server has an answer: what it did not expect would stand in its log."""
    before = len(streams.server.log_text())
    yield
    said = streams.server.log_text()[before:]
    assert "Traceback" not in said, said


@pytest_asyncio.fixture
async def connection(streams: StreamServer) -> AsyncIterator[Any]:  # Any: pyfluss has no types that mypy sees
    """A connection as root."""
    async with connected(streams) as made:
        yield made


@pytest.fixture
def admin(connection: Any) -> Any:
    """The administration of the server, as root."""
    return connection.get_admin()


@pytest_asyncio.fixture
async def database(admin: Any) -> AsyncIterator[str]:
    """A database of one's own."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    await admin.create_database(name)
    yield name
    await admin.drop_database(name, ignore_if_not_exists=True, cascade=True)


@pytest.fixture
def table_path(database: str) -> Any:
    """A path at which there is no table yet."""
    return fluss.TablePath(database, "t")


@pytest.fixture
def raw(streams: StreamServer) -> Iterator[socket.socket]:
    """A connection without a client on it."""
    with socket.create_connection(("127.0.0.1", streams.port), timeout=30) as made:
        yield made
