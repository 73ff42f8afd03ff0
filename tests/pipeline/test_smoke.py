"""A smoke test of the pipeline, in a minute."""

from __future__ import annotations

import time

from lakebed.core.jobs import JobKind
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

pytestmark = SPARK_MARKS


def test_table_is_compacted_expired_and_verified_with_vended_credentials(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, name STRING) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    for number in range(5):
        bench.sql(
            f"INSERT INTO {table.sql} SELECT id, concat('n', id) FROM range({number * 4}, {number * 4 + 4}, 1, 1)"
        )
    bench.sql(f"DELETE FROM {table.sql} WHERE id % 4 = 1")
    expected, checksum = bench.rows(table), bench.checksum(table)

    planned = bench.do(JobKind.COMPACT, table, dry_run=True)
    assert (planned.changed, planned.read.files, planned.details["planned-groups"]) == (False, 5, 1)

    compacted = bench.do(JobKind.COMPACT, table)
    assert (compacted.changed, compacted.read.files, compacted.wrote.files) == (True, 5, 1)
    assert compacted.before is not None
    assert compacted.after is not None
    assert (compacted.before.deletion_vectors, compacted.after.deletion_vectors) == (5, 0)
    assert changed_nothing(bench.do(JobKind.COMPACT, table), "none of 1 files qualifies")

    time.sleep(0.01)  # so that the maximum age of 0 has passed
    expired = bench.do(JobKind.EXPIRE_SNAPSHOTS, table, {"max-snapshot-age-ms": 0})
    assert expired.after is not None
    assert (expired.changed, expired.after.snapshots) == (True, 1)
    assert expired.removed.bytes > 0
    assert (bench.rows(table), bench.checksum(table)) == (expected, checksum)

    keys = {name: value for name, value in bench.spark.sparkContext.getConf().getAll() if "access-key" in name}
    assert not keys
    assert bench.spark.conf.get(f"spark.sql.catalog.{bench.catalog}.s3.access-key-id", "none") == "none"
