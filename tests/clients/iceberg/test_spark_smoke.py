"""A one-minute smoke test of Spark on the catalog."""

from __future__ import annotations

from tests.clients.iceberg.engine import SPARK_MARKS, Engine
from tests.clients.iceberg.lake import Lake

pytestmark = SPARK_MARKS


def test_rows_are_readable_in_every_access_mode(
    vended: Engine, vended_by_alias: Engine, signed: Engine, static: Engine, namespace: str
) -> None:
    engines = (vended, vended_by_alias, signed, static)
    vended.sql(f"CREATE TABLE {vended.table(namespace)} (id BIGINT, catalog STRING) USING iceberg")
    for number, engine in enumerate(engines):
        engine.sql(f"INSERT INTO {engine.table(namespace)} VALUES ({number}, '{engine.catalog}')")
    expected = [(number, engine.catalog) for number, engine in enumerate(engines)]
    for engine in engines:
        assert engine.sql(f"SELECT * FROM {engine.table(namespace)} ORDER BY id") == expected


def test_table_created_by_a_query_is_replaced_overwritten_and_merged_into(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg PARTITIONED BY (part) AS SELECT id, id % 2 AS part FROM range(4)")
    engine.sql(f"REPLACE TABLE {t} USING iceberg AS SELECT id + 10 AS id, 'old' AS state FROM range(3)")
    engine.sql(f"INSERT OVERWRITE {t} VALUES (1, 'new'), (2, 'new'), (3, 'new')")
    engine.sql(
        f"MERGE INTO {t} t USING (FROM VALUES (1, 'merged'), (2, 'gone'), (9, 'merged') AS s(id, state)) s"
        " ON t.id = s.id"
        " WHEN MATCHED AND s.state = 'gone' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET state = s.state"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    assert engine.sql(f"SELECT * FROM {t} ORDER BY id") == [(1, "merged"), (3, "new"), (9, "merged")]


def test_deletion_vectors_keep_row_ids(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(
        f"CREATE TABLE {t} (id BIGINT, state STRING) USING iceberg TBLPROPERTIES"
        " ('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
    )
    vended.sql(f"INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'old' FROM range(5)")
    vended.sql(f"DELETE FROM {t} WHERE id = 3")
    vended.sql(f"UPDATE {t} SET state = 'new' WHERE id = 1")
    assert vended.sql(f"SELECT id, state, _row_id, _last_updated_sequence_number FROM {t} ORDER BY id") == [
        (0, "old", 0, 1),
        (1, "new", 1, 3),
        (2, "old", 2, 1),
        (4, "old", 4, 1),
    ]
    assert vended.sql(f"SELECT file_format FROM {t}.delete_files") == [("PUFFIN",)]


def test_branch_is_written_and_main_fast_forwards_to_it(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg")
    vended.sql(f"INSERT INTO {t} VALUES (1)")
    first = vended.value(f"SELECT snapshot_id FROM {t}.snapshots")
    vended.sql(f"ALTER TABLE {t} CREATE BRANCH audit")
    vended.sql(f"INSERT INTO {t}.branch_audit VALUES (2)")
    assert vended.sql(f"SELECT id FROM {t}") == [(1,)]
    vended.sql(f"CALL {vended.catalog}.system.fast_forward('{t}', 'main', 'audit')")
    assert vended.sql(f"SELECT id FROM {t} ORDER BY id") == [(1,), (2,)]
    assert vended.sql(f"SELECT id FROM {t} VERSION AS OF {first}") == [(1,)]


def test_compaction_keeps_rows_and_expiration_deletes_old_files(signed: Engine, lake: Lake, namespace: str) -> None:
    t = signed.table(namespace)
    signed.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg")
    for number in range(3):
        signed.sql(f"INSERT INTO {t} VALUES ({number})")
    options = "map('min-input-files', '2')"
    compacted = signed.sql(f"CALL {signed.catalog}.system.rewrite_data_files(table => '{t}', options => {options})")
    assert compacted[0][:2] == (3, 1)
    expired = signed.sql(
        f"CALL {signed.catalog}.system.expire_snapshots"
        f"(table => '{t}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )
    assert expired[0][0] == 3
    assert signed.sql(f"SELECT id FROM {t} ORDER BY id") == [(0,), (1,), (2,)]


def test_view_is_created_read_and_dropped(vended: Engine, namespace: str) -> None:
    t, v = vended.table(namespace), vended.table(namespace, "v")
    vended.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(4)")
    vended.sql(f"CREATE VIEW {v} AS SELECT id FROM {t} WHERE id > 1")
    assert vended.sql(f"SELECT * FROM {v} ORDER BY id") == [(2,), (3,)]
    vended.sql(f"DROP VIEW {v}")
    assert vended.views(namespace) == []
