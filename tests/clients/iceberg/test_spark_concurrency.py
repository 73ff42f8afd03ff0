"""Concurrent Spark jobs on the same tables: commits are retried, and no change is lost or duplicated."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.iceberg.engine import SPARK_MARKS, Engine
from tests.clients.iceberg.lake import Lake

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


def run_concurrently(*jobs: Callable[[], None]) -> None:
    """Run jobs in separate threads and raise their errors."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        for done in [threads.submit(job) for job in jobs]:
            done.result()


def test_concurrent_appends_and_merges_in_two_access_modes_succeed(
    vended: Engine, signed: Engine, namespace: str
) -> None:
    name = f"{namespace}.t"
    vended.sql(
        f"CREATE TABLE {vended.catalog}.{name} (id BIGINT, writer STRING, round INT) USING iceberg TBLPROPERTIES"
        " ('commit.retry.num-retries' = '30', 'write.merge.isolation-level' = 'snapshot')"
    )
    vended.sql(f"INSERT INTO {vended.catalog}.{name} VALUES (-1, 'first', -1)")

    def append(engine: Engine, base: int) -> None:
        for number in range(5):
            engine.sql(f"INSERT INTO {engine.catalog}.{name} VALUES ({base + number}, 'append', {number})")

    def merge() -> None:
        for number in range(4):
            vended.sql(
                f"MERGE INTO {vended.catalog}.{name} t"
                f" USING (SELECT explode(array(-1L, {1000 + number}L)) AS id, {number} AS round) s ON t.id = s.id"
                " WHEN MATCHED THEN UPDATE SET round = s.round"
                " WHEN NOT MATCHED THEN INSERT (id, writer, round) VALUES (s.id, 'merge', s.round)"
            )

    run_concurrently(lambda: append(vended, 100), lambda: append(signed, 200), merge)
    expected = [(-1, "first", 3)]
    expected += [(base + number, "append", number) for base in (100, 200) for number in range(5)]
    expected += [(1000 + number, "merge", number) for number in range(4)]
    assert signed.sql(f"SELECT * FROM {signed.catalog}.{name} ORDER BY id") == expected
    operations = signed.sql(f"SELECT operation, count(*) FROM {signed.catalog}.{name}.snapshots GROUP BY 1 ORDER BY 1")
    assert operations == [("append", 11), ("overwrite", 4)]


def test_concurrent_writers_of_two_tables_lose_nothing(vended: Engine, signed: Engine, namespace: str) -> None:
    """Both writers alternate between the tables, in opposite order."""
    for name in ("a", "b"):
        vended.sql(
            f"CREATE TABLE {vended.table(namespace, name)} (writer STRING, n INT) USING iceberg"
            " TBLPROPERTIES ('commit.retry.num-retries' = '30')"
        )

    def write(engine: Engine, writer: str, order: str) -> None:
        for number in range(4):
            for name in order:
                engine.sql(f"INSERT INTO {engine.table(namespace, name)} VALUES ('{writer}', {number})")

    run_concurrently(lambda: write(vended, "x", "ab"), lambda: write(signed, "y", "ba"))
    for name in ("a", "b"):
        rows = vended.sql(f"SELECT * FROM {vended.table(namespace, name)} ORDER BY writer, n")
        assert rows == [(writer, number) for writer in "xy" for number in range(4)]


def test_one_of_two_updates_of_the_same_rows_gets_a_conflict(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id, 0 AS n FROM range(10)")
    conflicts: list[str] = []

    def update() -> None:
        for _ in range(4):
            try:
                vended.sql(f"UPDATE {t} SET n = n + 1")
            except Exception as error:
                # The client or the catalog detected the conflict.
                assert "conflict" in str(error).lower() or "CommitFailed" in str(error), error  # noqa: PT017
                conflicts.append(str(error))

    run_concurrently(update, update)
    ((least, most),) = vended.sql(f"SELECT min(n), max(n) FROM {t}")
    assert least == most == 8 - len(conflicts)


def test_compaction_and_concurrent_appends_both_succeed(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES ('commit.retry.num-retries' = '30')")
    vended.sql(f"INSERT INTO {t} VALUES (0)")

    def append() -> None:
        for number in range(1, 9):
            vended.sql(f"INSERT INTO {t} VALUES ({number})")

    def compact() -> None:
        for _ in range(3):
            vended.sql(
                f"CALL {vended.catalog}.system.rewrite_data_files"
                f"(table => '{t}', options => map('rewrite-all', 'true'))"
            )
            vended.sql(
                f"CALL {vended.catalog}.system.expire_snapshots"
                f"(table => '{t}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 2)"
            )

    run_concurrently(append, compact)
    assert [row[0] for row in vended.sql(f"SELECT id FROM {t} ORDER BY id")] == list(range(9))


def test_one_of_several_concurrent_creates_succeeds(vended: Engine, signed: Engine, lake: Lake, namespace: str) -> None:
    made: list[str] = []

    def create(engine: Engine, creator: str) -> None:
        try:
            engine.sql(f"CREATE TABLE {engine.table(namespace)} USING iceberg AS SELECT '{creator}' AS creator")
        except Exception as error:
            assert "already exists" in str(error).lower(), error  # noqa: PT017
        else:
            made.append(creator)

    run_concurrently(lambda: create(vended, "a"), lambda: create(signed, "b"), lambda: create(vended, "c"))
    assert vended.sql(f"SELECT creator FROM {vended.table(namespace)}") == [(creator,) for creator in made]
    assert len(made) == 1
