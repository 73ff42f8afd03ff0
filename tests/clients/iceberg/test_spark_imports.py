"""Spark imports existing data: registers metadata files and adds files to tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.clients.boto import REGION
from tests.clients.iceberg.engine import SPARK_MARKS, Engine
from tests.clients.iceberg.lake import Lake

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.fixture
def hadoop(static: Engine, lake: Lake) -> Iterator[None]:
    """Hadoop's S3 file system with root's keys, for files that Spark reads without a catalog."""
    ours = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        **{
            f"fs.s3a.bucket.{lake.warehouse}.{name}": value
            for name, value in {
                "endpoint": lake.server.endpoint,
                "endpoint.region": REGION,
                "access.key": lake.server.access_key,
                "secret.key": lake.server.secret_key,
                "path.style.access": "true",
            }.items()
        },
    }
    settings: Any = static.spark.sparkContext._jsc.hadoopConfiguration()  # Any: a Java object
    for name, value in ours.items():
        settings.set(name, value)
    yield
    for name in ours:
        settings.unset(name)


def test_table_is_registered_by_its_metadata(static: Engine, vended: Engine, namespace: str) -> None:
    t = static.table(namespace)
    static.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    static.sql(f"INSERT INTO {t} VALUES (3)")
    newest = static.value(f"SELECT file FROM {t}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")

    def register(engine: Engine) -> list[tuple[Any, ...]]:  # Any: numbers
        return engine.sql(f"CALL {engine.catalog}.system.register_table('{namespace}.again', '{newest}')")

    with pytest.raises(Py4JJavaError, match="overlaps that of another table"):
        register(static)
    static.sql(f"DROP TABLE {t}")
    with pytest.raises(Py4JJavaError, match="ForbiddenException"):
        register(vended)  # Table permissions do not apply to files outside of tables.
    ((_, records, _),) = register(static)
    assert records == 4
    again = vended.table(namespace, "again")
    vended.sql(f"INSERT INTO {again} VALUES (4)")
    assert vended.value(f"SELECT count(*) FROM {again}") == 5
    with pytest.raises(Py4JJavaError, match="already exists"):
        register(static)


@pytest.mark.usefixtures("hadoop")
def test_files_in_the_tables_directory_are_added_without_a_copy(static: Engine, lake: Lake, namespace: str) -> None:
    t, place = static.table(namespace), f"s3://{lake.warehouse}/imports/{namespace}"
    old = static.spark.range(10).selectExpr("id", "concat('name-', id) AS name", "id % 2 AS part")
    old.write.partitionBy("part").parquet(f"{place}/data/old")
    static.sql(
        f"CREATE TABLE {t} (id BIGINT, name STRING, part BIGINT) USING iceberg PARTITIONED BY (part) LOCATION '{place}'"
    )
    static.sql(f"CALL {static.catalog}.system.add_files('{t}', '`parquet`.`{place}/data/old`')")
    assert static.value(f"SELECT count(*) FROM {t}.files WHERE file_path LIKE '{place}/data/old/%'") > 1
    assert static.sql(f"SELECT id, name FROM {t} WHERE part = 1 AND id > 6 ORDER BY id") == [
        (7, "name-7"),
        (9, "name-9"),
    ]
    static.sql(f"INSERT INTO {t} VALUES (10, 'name-10', 0)")
    static.sql(f"DELETE FROM {t} WHERE id = 7")
    assert static.value(f"SELECT count(*) FROM {t}") == 10


@pytest.mark.usefixtures("hadoop")
def test_files_outside_of_the_table_are_not_added(static: Engine, lake: Lake, namespace: str) -> None:
    """A directory belongs to one table, and a table's files must be in its directories."""
    t, place = static.table(namespace), f"s3://{lake.warehouse}/elsewhere/{namespace}"
    static.spark.range(3).write.parquet(place)
    static.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg")
    with pytest.raises(Py4JJavaError, match="is outside the table's directories"):
        static.sql(f"CALL {static.catalog}.system.add_files('{t}', '`parquet`.`{place}`')")
    assert static.value(f"SELECT count(*) FROM {t}") == 0
