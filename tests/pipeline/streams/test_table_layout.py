from __future__ import annotations

from lakebed.client.streams.tables import TableInfo
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.pipeline.streams.table_layout import create_statement, merge_statement, missing_columns

COLUMNS = [
    ("id", DataType(TypeRoot.BIGINT)),
    ("day", DataType(TypeRoot.STRING)),
    ("at", DataType(TypeRoot.TIMESTAMP, precision=3)),
]


def table(*, keyed: bool = False, **others: object) -> TableInfo:
    schema = Schema.of(COLUMNS, primary_key=["id", "day"] if keyed else [])
    return TableInfo("fluss", "t", 7, 1, schema, 4, **others)  # type: ignore[arg-type]


def test_columns_of_the_stream_come_first_and_then_where_records_were() -> None:
    made = create_statement("`l`.`n`.`t`", table())
    assert (
        "(`id` bigint, `day` string, `at` timestamp_ntz, `__bucket` int NOT NULL, `__offset` bigint NOT NULL,"
        " `__timestamp` timestamp NOT NULL)" in made
    )
    assert "PARTITIONED BY (`__bucket`)" in made
    assert "'write.distribution-mode' = 'none'" in made


def test_files_are_divided_as_the_stream_is() -> None:
    assert "PARTITIONED BY (`day`, `__bucket`)" in create_statement("t", table(partition_keys=("day",)))
    icebergs = table(bucket_key=("id",), properties={"table.datalake.format": "iceberg"})
    assert "PARTITIONED BY (bucket(4, `id`))" in create_statement("t", icebergs)
    # Buckets that were computed in another way are not those of Iceberg.
    assert "PARTITIONED BY (`__bucket`)" in create_statement("t", table(bucket_key=("id",)))


def test_columns_that_the_stream_has_got_are_put_where_they_are_in_it() -> None:
    assert missing_columns(table(), ["id", "day", "at", "__bucket", "__offset", "__timestamp"]) == []
    assert missing_columns(table(), ["day", "__bucket"]) == ["`id` bigint FIRST", "`at` timestamp_ntz AFTER `day`"]


def test_the_last_change_of_a_key_decides() -> None:
    made = merge_statement("t", "changes", table(keyed=True))
    assert "PARTITION BY `id`, `day`, `__bucket` ORDER BY __offset DESC" in made
    assert "ON t.`id` = s.`id` AND t.`day` = s.`day` AND t.`__bucket` = s.`__bucket`" in made
    assert "WHEN MATCHED AND s._change_type = '-D' THEN DELETE" in made
    assert "WHEN NOT MATCHED AND s._change_type <> '-D' THEN INSERT" in made
