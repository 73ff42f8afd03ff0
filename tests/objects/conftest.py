"""Object stores on all backends, for the tests of the services."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from tests.fixtures.postgres import PostgresServer

from .stores import ObjectStore, OpenObjectStore, opened_store

KINDS = (
    "sqlite-memory",
    "sqlite-folder",
    pytest.param("postgres-memory", marks=pytest.mark.integration),
    pytest.param("postgres-folder", marks=pytest.mark.integration),
)


@pytest.fixture(scope="session")
def objects_dsn(postgres_server: PostgresServer) -> str:
    """A schema that is emptied before each use, because creating one for each test is slow."""
    schema = f"objects_{secrets.token_hex(6)}"
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    return postgres_server.dsn(search_path=schema)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves on request."""
    return ManualClock()


@pytest.fixture(params=KINDS)
def open_object_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenObjectStore:
    """Opens an empty object store on each combination of metadata store and object store."""
    meta, _, storage = request.param.partition("-")
    count = 0

    def address() -> str:
        nonlocal count
        count += 1
        if meta == "sqlite":
            return f"sqlite:{tmp_path / f'meta-{count}.db'}"
        dsn: str = request.getfixturevalue("objects_dsn")
        return dsn

    if meta == "postgres":
        address()  # starts the server before an event loop runs
    return lambda clock: opened_store(address(), storage, tmp_path / f"bytes-{count}", clock)


@pytest.fixture
async def store(open_object_store: OpenObjectStore, clock: ManualClock) -> AsyncIterator[ObjectStore]:
    """An object store on each combination of stores."""
    async with open_object_store(clock) as opened:
        yield opened


@pytest.fixture
async def light_store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ObjectStore]:
    """An object store on SQLite and memory, for tests that do not depend on the stores."""
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, clock) as opened:
        yield opened
