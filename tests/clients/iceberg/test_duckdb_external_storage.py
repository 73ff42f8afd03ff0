"""DuckDB on a catalog over an external MinIO, with vended credentials."""

from __future__ import annotations

import pytest

from tests.clients.iceberg.external_lake import ExternalLake
from tests.clients.iceberg.test_duckdb_oauth import duckdb_with_credential
from tests.clients.users import User

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_duckdb_reads_and_writes_the_store(external: ExternalLake, external_user: User) -> None:
    bucket = external.minio.make_bucket()
    lake = external.create_catalog(f"c-{bucket}", bucket)
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    with duckdb_with_credential(lake, external_user.keys) as duck:
        duck("CREATE TABLE lake.ns.t (id BIGINT, name VARCHAR)")
        duck("INSERT INTO lake.ns.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        duck("DELETE FROM lake.ns.t WHERE id = 2")
        assert duck("SELECT id FROM lake.ns.t ORDER BY id") == [(1,), (3,)]
    assert external.keys_in(bucket)
