"""A PostgreSQL schema for the tests of rules."""

from __future__ import annotations

import secrets

import pytest

from tests.fixtures.postgres import PostgresServer


@pytest.fixture(scope="session")
def rules_dsn(postgres_server: PostgresServer) -> str:
    """A schema that is emptied before each use."""
    schema = f"rules_{secrets.token_hex(6)}"
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    return postgres_server.dsn(search_path=schema)
