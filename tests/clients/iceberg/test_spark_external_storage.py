"""Spark on catalogs over an external MinIO: vended credentials, remote signing, and compaction by the pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.clients.iceberg.engine import SIGNED, SPARK_MARKS, VENDED, Engine, new_engine
from tests.clients.iceberg.external_lake import ExternalLake
from tests.clients.iceberg.lake import Lake
from tests.clients.users import User

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SPARK_MARKS


@pytest.fixture(params=[False, True], ids=["sts", "no-sts"])
def store(request: pytest.FixtureRequest, external: ExternalLake) -> tuple[Lake, str, bool]:
    """A catalog with a namespace `ns`, its bucket, and whether its store has no STS."""
    bucket = external.minio.make_bucket()
    lake = external.create_catalog(f"c-{bucket}", bucket, stsUnavailable=request.param)
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    return lake, bucket, request.param


def use(engine: Engine) -> None:
    """Create, append, merge, scan and compact a table."""
    t = engine.table("ns", f"t_{uuid.uuid4().hex[:8]}")
    engine.sql(f"CREATE TABLE {t} (id BIGINT, state STRING) USING iceberg")
    for number in range(4):
        engine.sql(f"INSERT INTO {t} VALUES ({number}, 'new')")
    engine.sql(
        f"MERGE INTO {t} t USING (FROM VALUES (1, 'merged'), (9, 'merged') AS s(id, state)) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET state = s.state WHEN NOT MATCHED THEN INSERT *"
    )
    engine.sql(f"DELETE FROM {t} WHERE id = 0")
    expected = [(1, "merged"), (2, "new"), (3, "new"), (9, "merged")]
    assert engine.sql(f"SELECT * FROM {t} ORDER BY id") == expected
    engine.sql(
        f"CALL {engine.catalog}.system.rewrite_data_files"
        f"(table => '{t}', options => map('min-input-files', '2', 'rewrite-all', 'true'))"
    )
    assert engine.sql(f"SELECT * FROM {t} ORDER BY id") == expected
    assert engine.value(f"SELECT COUNT(*) FROM {t}.files") == 1
    engine.sql(f"DROP TABLE {t}")


def test_spark_uses_the_store_with_what_it_offers(
    external: ExternalLake,
    store: tuple[Lake, str, bool],
    external_user: User,
    spark: SparkSession,
    own_signatures: None,
) -> None:
    lake, bucket, is_signed = store
    use(new_engine(spark, lake, SIGNED if is_signed else VENDED, external_user.keys))
    requests = external.audit.wait_for(lambda each: "/data/" in each.key and each.key.startswith("wh/tables"))
    transferred = [each for each in requests if each.api in ("GetObject", "PutObject", "CompleteMultipartUpload")]
    assert transferred
    assert external.keys_in(bucket)


def test_spark_without_sts_is_signed_also_if_it_requests_credentials(
    external: ExternalLake, external_user: User, spark: SparkSession, own_signatures: None
) -> None:
    bucket = external.minio.make_bucket()
    lake = external.create_catalog(f"c-{bucket}", bucket, stsUnavailable=True)
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    use(new_engine(spark, lake, VENDED, external_user.keys))


def test_pipeline_compacts_a_table_of_the_store(external: ExternalLake, external_user: User) -> None:
    bucket = external.minio.make_bucket()
    lake = external.create_catalog(f"c-{bucket}", bucket)
    with lake.catalog() as catalog:
        rows = pa.table({"id": pa.array([1, 2], pa.int64())})
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", schema=rows.schema)
        for _ in range(5):
            table.append(rows)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LAKEBED_"))},
            "LAKEBED_ENDPOINT": external.server.endpoint,
            "LAKEBED_TABLE_WAREHOUSE": lake.warehouse,
            "LAKEBED_ACCESS_KEY": external_user.keys.access_key,
            "LAKEBED_SECRET_KEY": external_user.keys.secret_key,
        }
        words = ("pipeline", "run", "compact-table", "--table", "ns.t", "--option", "min-input-files=2")
        done = subprocess.run(
            [sys.executable, "-m", "lakebed", *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        compacted = catalog.load_table("ns.t")
        assert compacted.scan().to_arrow().num_rows == 10
        assert len(list(compacted.scan().plan_files())) == 1
