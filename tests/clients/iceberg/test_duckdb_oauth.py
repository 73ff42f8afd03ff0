"""DuckDB with an OAuth2 credential only, for the catalog and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.boto import Keys
from tests.clients.iceberg.duck import Duck, opened_duckdb
from tests.clients.iceberg.lake import OWN, POLARIS, Lake
from tests.clients.iceberg.rows import SCHEMA, people
from tests.clients.users import User

pytestmark = pytest.mark.integration


@contextmanager
def duckdb_with_credential(lake: Lake, keys: Keys, *, mount: str = OWN) -> Iterator[Duck]:
    """DuckDB with an OAuth2 credential; files are accessed with vended credentials."""
    with opened_duckdb() as duck:
        duck(
            f"CREATE SECRET credential (TYPE iceberg, CLIENT_ID '{keys.access_key}',"
            f" CLIENT_SECRET '{keys.secret_key}', OAUTH2_SERVER_URI '{lake.server.endpoint}{mount}/v1/oauth/tokens')"
        )
        duck(
            f"ATTACH '{lake.warehouse}' AS lake"
            f" (TYPE iceberg, ENDPOINT '{lake.server.endpoint}{mount}', SECRET credential)"
        )
        yield duck


@pytest.mark.parametrize("mount", [OWN, POLARIS])
def test_duckdb_needs_an_oauth_credential_only(lake: Lake, namespace: str, engineer: User, mount: str) -> None:
    with duckdb_with_credential(lake, engineer.keys, mount=mount) as duck:
        name = f"lake.{namespace}.people"
        duck(f"CREATE TABLE {name} (id BIGINT, name VARCHAR)")
        duck(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        duck(f"DELETE FROM {name} WHERE id = 2")
        assert duck(f"SELECT id FROM {name} ORDER BY id") == [(1,), (3,)]


def test_duckdb_has_the_permissions_of_its_user(
    lake: Lake, catalog: RestCatalog, namespace: str, analyst: User
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA).append(people(1, 3))
    with duckdb_with_credential(lake, analyst.keys) as duck:
        assert duck(f"SELECT id FROM lake.{namespace}.t ORDER BY id") == [(1,), (3,)]
        with pytest.raises(duckdb.Error):
            duck(f"DROP TABLE lake.{namespace}.t")
    wrong = Keys(analyst.keys.access_key, "not the secret")
    with pytest.raises(duckdb.Error), duckdb_with_credential(lake, wrong):
        pass
