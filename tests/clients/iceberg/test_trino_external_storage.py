"""Trino on a catalog over an external MinIO, with vended credentials."""

from __future__ import annotations

from tests.clients.iceberg.external_lake import ExternalLake
from tests.clients.iceberg.trino import TRINO_MARKS, new_catalog
from tests.clients.iceberg.trino import VENDED as VENDED_TO_TRINO
from tests.clients.users import User
from tests.fixtures.trino import TrinoServer

pytestmark = TRINO_MARKS


def test_trino_reads_and_writes_the_store(
    external: ExternalLake, external_user: User, trino_server: TrinoServer
) -> None:
    bucket = external.minio.make_bucket()
    lake = external.create_catalog(f"c-{bucket}", bucket)
    # Trino takes the endpoint from its own configuration only.
    mode = {**VENDED_TO_TRINO, "s3.endpoint": external.minio.endpoint}
    trino = new_catalog(trino_server, lake, external_user.keys, mode)
    trino.sql(f"CREATE SCHEMA {trino.schema('ns')}")
    t = trino.table("ns")
    trino.sql(f"CREATE TABLE {t} AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(id, name)")
    trino.sql(f"INSERT INTO {t} VALUES (3, 'c')")
    trino.sql(
        f"MERGE INTO {t} t USING (VALUES (1, 'merged')) AS s(id, name) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    trino.sql(f"ALTER TABLE {t} EXECUTE optimize")
    assert trino.sql(f"SELECT * FROM {t} ORDER BY id") == [(1, "merged"), (2, "b"), (3, "c")]
    assert external.keys_in(bucket)
