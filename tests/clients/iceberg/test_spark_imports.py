"""Spark taking over what is there already: metadata files by name, and files that no table knows."""

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
def hadoop(held: Engine, lake: Lake) -> Iterator[None]:
    """Hadoop's own way to the bucket, with root's keys: what Spark reads by it is not read through a catalog."""
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
    settings: Any = held.spark.sparkContext._jsc.hadoopConfiguration()  # Any: an object of Java's
    for name, value in ours.items():
        settings.set(name, value)
    yield
    for name in ours:
        settings.unset(name)


def test_table_is_registered_by_its_metadata(held: Engine, vended: Engine, namespace: str) -> None:
    t = held.table(namespace)
    held.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    held.sql(f"INSERT INTO {t} VALUES (3)")
    newest = held.value(f"SELECT file FROM {t}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")

    def register(engine: Engine) -> list[tuple[Any, ...]]:  # Any: numbers
        return engine.sql(f"CALL {engine.catalog}.system.register_table('{namespace}.again', '{newest}')")

    with pytest.raises(Py4JJavaError, match="overlaps that of another table"):
        register(held)
    held.sql(f"DROP TABLE {t}")
    with pytest.raises(Py4JJavaError, match="ForbiddenException"):
        register(vended)  # Rights to tables are none to files that are no table's.
    ((_, records, _),) = register(held)
    assert records == 4
    again = vended.table(namespace, "again")
    vended.sql(f"INSERT INTO {again} VALUES (4)")
    assert vended.value(f"SELECT count(*) FROM {again}") == 5
    with pytest.raises(Py4JJavaError, match="already exists"):
        register(held)


@pytest.mark.usefixtures("hadoop")
def test_files_in_the_tables_directory_are_added_without_a_copy(held: Engine, lake: Lake, namespace: str) -> None:
    t, place = held.table(namespace), f"s3://{lake.warehouse}/imports/{namespace}"
    old = held.spark.range(10).selectExpr("id", "concat('name-', id) AS name", "id % 2 AS part")
    old.write.partitionBy("part").parquet(f"{place}/data/old")
    held.sql(
        f"CREATE TABLE {t} (id BIGINT, name STRING, part BIGINT) USING iceberg PARTITIONED BY (part) LOCATION '{place}'"
    )
    held.sql(f"CALL {held.catalog}.system.add_files('{t}', '`parquet`.`{place}/data/old`')")
    assert held.value(f"SELECT count(*) FROM {t}.files WHERE file_path LIKE '{place}/data/old/%'") > 1
    assert held.sql(f"SELECT id, name FROM {t} WHERE part = 1 AND id > 6 ORDER BY id") == [
        (7, "name-7"),
        (9, "name-9"),
    ]
    held.sql(f"INSERT INTO {t} VALUES (10, 'name-10', 0)")
    held.sql(f"DELETE FROM {t} WHERE id = 7")
    assert held.value(f"SELECT count(*) FROM {t}") == 10


@pytest.mark.usefixtures("hadoop")
def test_files_elsewhere_are_not_added(held: Engine, lake: Lake, namespace: str) -> None:
    """Directories belong to one table each, and a table's files lie in its own."""
    t, place = held.table(namespace), f"s3://{lake.warehouse}/elsewhere/{namespace}"
    held.spark.range(3).write.parquet(place)
    held.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg")
    with pytest.raises(Py4JJavaError, match="is outside the table's directories"):
        held.sql(f"CALL {held.catalog}.system.add_files('{t}', '`parquet`.`{place}`')")
    assert held.value(f"SELECT count(*) FROM {t}") == 0
