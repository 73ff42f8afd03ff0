"""Trino writes rows: inserts, deletes, updates and merges, in each file format."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from trino.exceptions import TrinoQueryError, TrinoUserError

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ids_of, rows_of
from tests.clients.iceberg.trino import TRINO_MARKS, TrinoCatalog

pytestmark = TRINO_MARKS


def operations(trino: TrinoCatalog, namespace: str) -> list[str]:
    """The operation of each snapshot of a table, oldest first."""
    return trino.column(f"SELECT operation FROM {trino.table(namespace, 't$snapshots')} ORDER BY committed_at")


@pytest.mark.parametrize("format", ["PARQUET", "ORC", "AVRO"])
def test_rows_are_written_in_each_format(each_trino: TrinoCatalog, namespace: str, format: str) -> None:
    trino, t = each_trino, each_trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT, part VARCHAR) WITH (format = '{format}', partitioning = ARRAY['part'])")
    trino.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    trino.sql(f"INSERT INTO {t} SELECT id + 3, part FROM {t}")
    trino.sql(f"DELETE FROM {t} WHERE id = 4")
    assert trino.sql(f"SELECT id, part FROM {t} ORDER BY id") == [(1, "a"), (2, "b"), (3, None), (5, "b"), (6, None)]
    assert trino.column(f"SELECT id FROM {t} WHERE part = 'b' ORDER BY id") == [2, 5]
    written = trino.sql(f"SELECT DISTINCT file_format FROM {trino.table(namespace, 't$files')} WHERE content = 0")
    assert written == [(format,)]


def test_rows_are_deleted_updated_and_merged(each_trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    trino, t = each_trino, each_trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT, state VARCHAR, day DATE) WITH (partitioning = ARRAY['day'])")
    trino.sql(
        f"INSERT INTO {t} SELECT id, 'new', date_add('day', id % 2, DATE '2026-01-01')"
        " FROM UNNEST(sequence(0, 9)) s (id)"
    )
    trino.sql(f"DELETE FROM {t} WHERE id IN (1, 2)")
    trino.sql(f"UPDATE {t} SET state = 'updated' WHERE id = 3")
    trino.sql(
        f"MERGE INTO {t} t USING (SELECT id, DATE '2026-01-09' AS day FROM UNNEST(sequence(7, 10)) s (id)) s"
        " ON t.id = s.id"
        " WHEN MATCHED AND t.id = 7 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET state = 'merged', day = s.day"
        " WHEN NOT MATCHED THEN INSERT (id, state, day) VALUES (s.id, 'inserted', s.day)"
    )
    expected = [
        (0, "new", 1),
        (3, "updated", 2),
        (4, "new", 1),
        (5, "new", 2),
        (6, "new", 1),
        (8, "merged", 9),
        (9, "merged", 9),
        (10, "inserted", 9),
    ]
    assert trino.sql(f"SELECT id, state, day(day) FROM {t} ORDER BY id") == expected
    seen = rows_of(catalog.load_table((namespace, "t")))
    assert [(row["id"], row["state"], row["day"].day) for row in seen] == expected
    assert trino.value(f"SELECT count(*) FROM {trino.table(namespace, 't$files')} WHERE content = 1") > 0


def test_delete_of_whole_files_writes_none(trino: TrinoCatalog, namespace: str) -> None:
    t, files = trino.table(namespace), trino.table(namespace, "t$files")
    trino.sql(
        f"CREATE TABLE {t} WITH (partitioning = ARRAY['part'])"
        " AS SELECT id, id % 3 AS part FROM UNNEST(sequence(0, 8)) s (id)"
    )
    trino.sql(f"DELETE FROM {t} WHERE part = 1")
    assert operations(trino, namespace)[-1] == "delete"
    assert trino.sql(f"SELECT content, count(*) FROM {files} GROUP BY content") == [(0, 2)]
    assert trino.value(f"SELECT count(*) FROM {t}") == 6
    trino.sql(f"TRUNCATE TABLE {t}")
    assert trino.value(f"SELECT count(*) FROM {t}") == 0


def test_format_version_1_supports_changes_of_whole_partitions(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str
) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT, part BIGINT) WITH (format_version = 1, partitioning = ARRAY['part'])")
    trino.sql(f"INSERT INTO {t} VALUES (1, 0), (2, 1), (3, 1)")
    trino.sql(f"DELETE FROM {t} WHERE part = 0")
    with pytest.raises(TrinoUserError, match="format version 2"):
        trino.sql(f"DELETE FROM {t} WHERE id = 2")
    assert ids_of(catalog.load_table((namespace, "t"))) == [2, 3]


def test_large_files_are_uploaded_in_parts(each_trino: TrinoCatalog, lake: Lake, s3: Any, namespace: str) -> None:
    trino, t = each_trino, each_trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT, noise VARCHAR)")
    noise = " || ".join(["CAST(uuid() AS VARCHAR)"] * 20)
    trino.sql(
        f"INSERT INTO {t} SELECT a * 300 + b, {noise}"
        " FROM UNNEST(sequence(0, 299)) x (a), UNNEST(sequence(0, 299)) y (b)",
        compression_codec="NONE",
    )
    path = trino.value(
        f"SELECT file_path FROM {trino.table(namespace, 't$files')} ORDER BY file_size_in_bytes DESC LIMIT 1"
    )
    head = s3.head_object(Bucket=lake.warehouse, Key=path.removeprefix(f"s3://{lake.warehouse}/"))
    assert re.search(r"-\d+\"$", head["ETag"])
    assert trino.sql(f"SELECT count(DISTINCT id), sum(length(noise)) FROM {t}") == [(90_000, 90_000 * 36 * 20)]


def test_concurrent_writers_lose_no_rows(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT)")

    def write(first: int) -> list[int]:
        done = []
        for number in range(first, first + 4):
            try:
                trino.sql(f"INSERT INTO {t} VALUES ({number})")
            except TrinoQueryError:
                continue
            done.append(number)
        return done

    with ThreadPoolExecutor(2) as threads:
        done = sorted(number for numbers in threads.map(write, (0, 4)) for number in numbers)
    assert done
    assert ids_of(catalog.load_table((namespace, "t"))) == done


def test_statistics_are_written_and_dropped(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} AS SELECT id % 10 AS id FROM UNNEST(sequence(0, 99)) s (id)")
    trino.sql(f"ANALYZE {t}")
    (statistics,) = catalog.load_table((namespace, "t")).metadata.statistics
    assert statistics.blob_metadata[0].properties["ndv"] == "10"
    distinct = {row[0]: row[2] for row in trino.sql(f"SHOW STATS FOR {t}")}
    assert distinct["id"] == 10
    trino.sql(f"ALTER TABLE {t} EXECUTE drop_extended_stats")
    assert catalog.load_table((namespace, "t")).metadata.statistics == []
