"""Imports of folders and of tables of other catalogs."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.core.errors import AccessDenied, AlreadyExists, InvalidInput, NotFound
from lakebed.core.jobs import JobKind
from lakebed.core.settings import PipelineDelegation
from tests.clients.boto import REGION, all_keys, root_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.users import User, user_with_actions
from tests.fixtures.server import RunningServer
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing, new_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@pytest.fixture(scope="module")
def importer(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with all permissions on tables and objects, as an import in place requires."""
    return user_with_actions(lakebed_server, tmp_path_factory.mktemp("importer"), "s3tables:*", "s3:*")


@pytest.fixture(scope="module")
def import_bench(spark: SparkSession, lake: Lake, importer: User) -> Bench:
    return new_bench(spark, lake, importer.keys)


@pytest.fixture(scope="module")
def signed_import_bench(spark: SparkSession, lake: Lake, importer: User) -> Bench:
    return new_bench(spark, lake, importer.keys, PipelineDelegation.SIGNED)


@pytest.fixture
def folder(s3: Any, lake: Lake) -> str:
    """A folder of the table bucket in Hive layout, with the usual extra files."""
    place = f"landing/{uuid.uuid4().hex}"
    for country, day, ids in (("de", "2026-01-01", [1, 2]), ("fr", "2026-01-02", [3]), (None, "2026-01-02", [4])):
        where = f"{place}/country={country or '__HIVE_DEFAULT_PARTITION__'}/day={day}"
        s3.put_object(
            Bucket=lake.warehouse,
            Key=f"{where}/part-{ids[0]}.parquet",
            Body=parquet(
                id=pa.array(ids, pa.int64()),
                name=[f"n{one}" for one in ids],
                at=pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * len(ids), pa.timestamp("us", "UTC")),
            ),
        )
    s3.put_object(Bucket=lake.warehouse, Key=f"{place}/_SUCCESS", Body=b"")
    s3.put_object(Bucket=lake.warehouse, Key=f"{place}/_metadata", Body=b"hidden")
    return f"s3://{lake.warehouse}/{place}"


EXPECTED = [
    (1, "n1", "de", date(2026, 1, 1)),
    (2, "n2", "de", date(2026, 1, 1)),
    (3, "n3", "fr", date(2026, 1, 2)),
    (4, "n4", None, date(2026, 1, 2)),
]


def test_folder_is_imported_in_place(import_bench: Bench, namespace: str, folder: str) -> None:
    table = import_bench.table(namespace)
    planned = import_bench.do(JobKind.IMPORT, table, {"source": folder}, dry_run=True)
    assert (planned.read.files, planned.changed) == (3, False)
    assert planned.details["partition-columns"] == ["country", "day"]
    assert planned.details["columns"] == ["id bigint", "name string", "at timestamp", "country string", "day date"]
    assert not import_bench.spark.catalog.tableExists(table.sql)
    report = import_bench.do(JobKind.IMPORT, table, {"source": folder})
    assert report.after is not None
    assert (report.changed, report.after.data_files, report.after.rows) == (True, 3, 4)
    assert any("hidden" in one.reason for one in report.skipped)
    assert all(path.startswith(f"{folder}/country=") for path in import_bench.files(table))
    assert import_bench.sql(f"SELECT id, name, country, day FROM {table.sql} ORDER BY id") == EXPECTED
    # Only one of three files is read: the folders have the rest.
    assert import_bench.sql(f"SELECT id FROM {table.sql} WHERE day = DATE '2026-01-01' ORDER BY id") == [(1,), (2,)]
    assert changed_nothing(import_bench.do(JobKind.IMPORT, table, {"source": folder}), "imported already")
    import_bench.sql(f"INSERT INTO {table.sql} VALUES (5, 'n5', NULL, 'it', DATE '2026-01-03')")
    import_bench.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    import_bench.do(JobKind.COMPACT, table, {"rewrite-all": True})
    assert import_bench.sql(f"SELECT id FROM {table.sql} ORDER BY id") == [(2,), (3,), (4,), (5,)]
    import_bench.checksum(table)


def test_folder_is_copied_and_left_unchanged(
    import_bench: Bench, s3: Any, lake: Lake, namespace: str, folder: str
) -> None:
    table, prefix = import_bench.table(namespace), folder.removeprefix(f"s3://{lake.warehouse}/")
    before = all_keys(s3, lake.warehouse, prefix)
    options = {"source": folder, "mode": "copy", "partition-columns": "country string,day string"}
    report = import_bench.do(JobKind.IMPORT, table, {**options})
    assert (report.changed, report.read.files, report.wrote.rows) == (True, 3, 4)
    assert import_bench.sql(f"SELECT id, name, country, day FROM {table.sql} ORDER BY id") == [
        (*row[:3], str(row[3])) for row in EXPECTED
    ]
    assert not any(path.startswith(folder) for path in import_bench.files(table))
    assert all_keys(s3, lake.warehouse, prefix) == before
    assert ["folder"] not in lake.call("GET", "namespaces")["namespaces"]
    assert changed_nothing(import_bench.do(JobKind.IMPORT, table, {**options}), "imported already")
    with pytest.raises(AlreadyExists, match="the table exists already"):
        import_bench.do(JobKind.IMPORT, table, {"source": f"{folder}/country=de"})
    import_bench.checksum(table)


def test_folder_is_imported_with_remote_signing(signed_import_bench: Bench, namespace: str, folder: str) -> None:
    for mode in ("copy", "in-place"):
        table = signed_import_bench.table(namespace, mode.replace("-", "_"))
        assert signed_import_bench.do(JobKind.IMPORT, table, {"source": folder, "mode": mode}).changed
        assert signed_import_bench.sql(f"SELECT id, name, country, day FROM {table.sql} ORDER BY id") == EXPECTED


@pytest.mark.parametrize("mode", ["in-place", "copy"])
def test_import_requires_permission_on_the_folder(
    bench: Bench, s3: Any, lake: Lake, namespace: str, folder: str, mode: str
) -> None:
    before = all_keys(s3, lake.warehouse, folder.removeprefix(f"s3://{lake.warehouse}/"))
    table = bench.table(namespace)
    with pytest.raises(AccessDenied, match="lacks an S3 permission on them"):
        bench.do(JobKind.IMPORT, table, {"source": folder, "mode": mode})
    assert not bench.spark.catalog.tableExists(table.sql)
    assert all_keys(s3, lake.warehouse, folder.removeprefix(f"s3://{lake.warehouse}/")) == before


def test_folder_of_another_bucket_is_copied_with_read_permission(
    bench: Bench, root_bench: Bench, s3: Any, namespace: str, tmp_path: Path
) -> None:
    bucket = f"plain-{uuid.uuid4().hex[:20]}"
    s3.create_bucket(Bucket=bucket)
    for number in range(3):
        s3.put_object(Bucket=bucket, Key=f"in/part-{number}", Body=parquet(id=[number]))
    s3.put_object(Bucket=bucket, Key="in/readme.txt", Body=b"about these files, at some length")
    table = root_bench.table(namespace)
    with pytest.raises(InvalidInput, match="outside of the table bucket"):
        root_bench.do(JobKind.IMPORT, table, {"source": f"s3://{bucket}/in"})
    report = root_bench.do(JobKind.IMPORT, table, {"source": f"s3://{bucket}/in", "mode": "copy"})
    assert [one.reason for one in report.skipped] == ["not a Parquet file"]
    assert root_bench.rows(table) == [(0,), (1,), (2,)]
    (tmp_path / "local").mkdir()
    pq.write_table(pa.table({"id": [7]}), tmp_path / "local" / "part.parquet")
    local = bench.table(namespace, "local")
    assert bench.do(JobKind.IMPORT, local, {"source": f"file://{tmp_path}/local", "mode": "copy"}).changed
    assert bench.rows(local) == [(7,)]


def test_unsuitable_folders_are_rejected_with_the_reason(
    import_bench: Bench, s3: Any, lake: Lake, namespace: str
) -> None:
    place = f"odd/{uuid.uuid4().hex}"

    def put(key: str, **columns: Any) -> None:
        s3.put_object(Bucket=lake.warehouse, Key=f"{place}/{key}", Body=parquet(**columns))

    put("types/a.parquet", id=[1])
    put("types/b.parquet", id=["one"])
    put("depths/a=1/x.parquet", id=[1])
    put("depths/x.parquet", id=[1])
    for source, words in (
        ("types", "conflicting types of a column. column=id"),
        ("depths", "need the same partition columns"),
        ("none", "folder has no Parquet files"),
    ):
        with pytest.raises(InvalidInput, match=words):
            import_bench.do(
                JobKind.IMPORT, import_bench.table(namespace), {"source": f"s3://{lake.warehouse}/{place}/{source}"}
            )
    for options in ({}, {"source": "s3://x"}, {"source-table": "a.b"}, {"source": "x", "source-table": "a.b"}):
        with pytest.raises(InvalidInput):
            import_bench.do(JobKind.IMPORT, import_bench.table(namespace), {**options})
    assert not import_bench.spark.catalog.tableExists(import_bench.table(namespace).sql)


def test_added_and_widened_columns_are_merged(import_bench: Bench, s3: Any, lake: Lake, namespace: str) -> None:
    place = f"wider/{uuid.uuid4().hex}"
    for name, body in (
        ("a.parquet", parquet(id=pa.array([1], pa.int32()))),
        ("b.parquet", parquet(id=pa.array([2], pa.int64()), more=["x"])),
    ):
        s3.put_object(Bucket=lake.warehouse, Key=f"{place}/{name}", Body=body)
    table = import_bench.table(namespace)
    import_bench.do(JobKind.IMPORT, table, {"source": f"s3://{lake.warehouse}/{place}"})
    assert import_bench.rows(table) == [(1, None), (2, "x")]


def test_table_of_another_catalog_is_copied_at_its_current_snapshot(
    bench: Bench, spark: Any, lake: Lake, namespace: str
) -> None:
    source = new_bench(spark, lake, root_keys(lake.server)).table(namespace, "source")
    bench.sql(
        f"CREATE TABLE {source.sql} (id BIGINT NOT NULL COMMENT 'who', at TIMESTAMP) USING iceberg"
        " PARTITIONED BY (days(at), bucket(4, id)) TBLPROPERTIES ('format-version' = '3', 'mine' = 'kept')"
    )
    home = bench.value(f"SELECT file FROM {source.inside('metadata_log_entries')}").partition("/metadata/")[0]
    bench.sql(f"ALTER TABLE {source.sql} SET TBLPROPERTIES ('write.data.path' = '{home}/rows')")
    bench.sql(f"INSERT INTO {source.sql} SELECT id, TIMESTAMP '2026-01-01' FROM range(10)")
    bench.sql(f"DELETE FROM {source.sql} WHERE id = 3")
    table = bench.table(namespace, "copy")
    options = {"source-catalog": source.catalog, "source-table": f"{namespace}.source", "mode": "copy"}
    assert bench.do(JobKind.IMPORT, table, {**options}, dry_run=True).read.rows == 9
    report = bench.do(JobKind.IMPORT, table, {**options})
    assert (report.changed, report.wrote.rows) == (True, 9)
    assert bench.rows(table) == bench.rows(source)
    described = bench.sql(f"DESCRIBE EXTENDED {table.sql}")
    assert ("id", "bigint", "who") in described
    assert {row[1] for row in described if row[0].startswith("Part ")} == {"days(at)", "bucket(4, id)"}
    properties = dict(bench.sql(f"SHOW TBLPROPERTIES {table.sql}"))
    assert (properties["mine"], properties["format-version"]) == ("kept", "3")
    assert "write.data.path" not in properties
    assert changed_nothing(bench.do(JobKind.IMPORT, table, {**options}), "imported already")
    bench.sql(f"INSERT INTO {source.sql} VALUES (99, NULL)")
    with pytest.raises(AlreadyExists):
        bench.do(JobKind.IMPORT, table, {**options})
    with pytest.raises(NotFound):
        bench.do(JobKind.IMPORT, bench.table(namespace, "x"), {**options, "source-table": f"{namespace}.none"})


def test_interrupted_copy_is_resumed(bench: Bench, root_bench: Bench, namespace: str) -> None:
    source, table = root_bench.table(namespace, "source"), bench.table(namespace, "copy")
    bench.sql(f"CREATE TABLE {source.sql} USING iceberg AS SELECT id FROM range(4)")
    options = {
        "source-uri": f"{bench.access.endpoint}/iceberg",
        "source-warehouse": bench.lake.warehouse,
        "source-table": f"{namespace}.source",
        "mode": "copy",
    }
    bench.do(JobKind.IMPORT, table, {**options})
    # As after a crash between creating the table and copying rows.
    mark = dict(bench.sql(f"SHOW TBLPROPERTIES {table.sql}"))["lakebed.import-source"]
    bench.sql(f"DROP TABLE {table.sql} PURGE")
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg"
        f" TBLPROPERTIES ('lakebed.import-source' = '{mark}', 'lakebed.import-state' = 'started')"
    )
    assert bench.do(JobKind.IMPORT, table, {**options}).changed
    assert bench.rows(table) == [(0,), (1,), (2,), (3,)]
    # As after a crash between copying rows and recording it.
    bench.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('lakebed.import-state' = 'started')")
    assert changed_nothing(bench.do(JobKind.IMPORT, table, {**options}), "imported already")
    assert dict(bench.sql(f"SHOW TBLPROPERTIES {table.sql}"))["lakebed.import-state"] == "done"


@pytest.fixture
def other_catalog(root_bench: Bench, lake: Lake) -> Iterator[str]:
    """A Hadoop catalog on the server's object store, where folders are tables."""
    name = f"folders_{uuid.uuid4().hex[:8]}"
    settings: Any = root_bench.spark.sparkContext._jsc.hadoopConfiguration()  # Any: a Java object
    ours = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        **{
            f"fs.s3a.bucket.{lake.warehouse}.{key}": value
            for key, value in {
                "endpoint": lake.server.endpoint,
                "endpoint.region": REGION,
                "access.key": lake.server.access_key,
                "secret.key": lake.server.secret_key,
                "path.style.access": "true",
            }.items()
        },
    }
    for key, value in ours.items():
        settings.set(key, value)
    root_bench.spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    root_bench.spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    root_bench.spark.conf.set(f"spark.sql.catalog.{name}.warehouse", f"s3://{lake.warehouse}/{name}")
    yield name
    for key in ours:
        settings.unset(key)


def test_table_of_another_catalog_is_registered_with_its_history(
    root_bench: Bench, other_catalog: str, namespace: str
) -> None:
    source = f"{other_catalog}.old.orders"
    root_bench.sql(f"CREATE TABLE {source} USING iceberg AS SELECT id FROM range(3)")
    first = root_bench.value(f"SELECT snapshot_id FROM {source}.snapshots")
    root_bench.sql(f"INSERT INTO {source} VALUES (3)")
    table = root_bench.table(namespace)
    options = {"source-catalog": other_catalog, "source-table": "old.orders"}
    planned = root_bench.do(JobKind.IMPORT, table, {**options}, dry_run=True)
    assert str(planned.details["metadata"]).endswith(".metadata.json")
    report = root_bench.do(JobKind.IMPORT, table, {**options})
    assert (report.changed, len(report.snapshots)) == (True, 1)
    assert root_bench.files(table) == sorted(row[0] for row in root_bench.sql(f"SELECT file_path FROM {source}.files"))
    assert root_bench.sql(f"SELECT id FROM {table.sql} VERSION AS OF {first} ORDER BY id") == [(0,), (1,), (2,)]
    root_bench.sql(f"INSERT INTO {table.sql} VALUES (4)")
    assert root_bench.rows(table) == [(0,), (1,), (2,), (3,), (4,)]
    assert changed_nothing(root_bench.do(JobKind.IMPORT, table, {**options}), "registered already")
    root_bench.sql(f"CREATE TABLE {root_bench.table(namespace, 'another').sql} (id BIGINT) USING iceberg")
    with pytest.raises(AlreadyExists):
        root_bench.do(JobKind.IMPORT, root_bench.table(namespace, "another"), {**options})
