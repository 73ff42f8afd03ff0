"""Trino and snapshots: time travel, rollback, compaction, expiration, orphan removal."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from trino.exceptions import TrinoUserError

from tests.clients.boto import all_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ids_of
from tests.clients.iceberg.trino import TRINO_MARKS, TrinoCatalog

pytestmark = TRINO_MARKS

AT_ONCE = {"expire_snapshots_min_retention": "0s", "remove_orphan_files_min_retention": "0s"}
"""Session settings without a minimum retention."""


def create_history(trino: TrinoCatalog, namespace: str) -> str:
    """Create an empty table, then three snapshots with one more row each."""
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT)")
    for number in (1, 2, 3):
        trino.sql(f"INSERT INTO {t} VALUES ({number})")
    return t


@pytest.fixture
def table(trino: TrinoCatalog, namespace: str) -> str:
    return create_history(trino, namespace)


def snapshots(trino: TrinoCatalog, namespace: str) -> list[int]:
    """A table's snapshots, oldest first."""
    return trino.column(f"SELECT snapshot_id FROM {trino.table(namespace, 't$snapshots')} ORDER BY committed_at")


def ids(trino: TrinoCatalog, source: str) -> list[int]:
    return trino.column(f"SELECT id FROM {source} ORDER BY id")


# -- time travel -----------------------------------------------------------------------------------------------------


def test_time_travel_reads_earlier_snapshots(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str, table: str
) -> None:
    empty, first, second, _ = snapshots(trino, namespace)
    assert ids(trino, f"{table} FOR VERSION AS OF {empty}") == []
    assert ids(trino, f"{table} FOR VERSION AS OF {first}") == [1]
    moment = trino.value(
        f"SELECT committed_at FROM {trino.table(namespace, 't$snapshots')} WHERE snapshot_id = {second}"
    )
    assert ids(trino, f"{table} FOR TIMESTAMP AS OF TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f} UTC'") == [1, 2]
    catalog.load_table((namespace, "t")).manage_snapshots().create_tag(second, "release").commit()
    assert ids(trino, f"{table} FOR VERSION AS OF 'release'") == [1, 2]
    with pytest.raises(TrinoUserError, match="No version history table"):
        ids(trino, f"{table} FOR TIMESTAMP AS OF TIMESTAMP '2000-01-01 00:00:00 UTC'")
    with pytest.raises(TrinoUserError, match="snapshot ID does not exist"):
        ids(trino, f"{table} FOR VERSION AS OF BIGINT '1'")


def test_old_snapshot_is_read_with_its_schema(trino: TrinoCatalog, namespace: str, table: str) -> None:
    before = snapshots(trino, namespace)[-1]
    trino.sql(f"ALTER TABLE {table} ADD COLUMN note VARCHAR")
    trino.sql(f"INSERT INTO {table} VALUES (4, 'x')")
    assert trino.sql(f"SELECT * FROM {table} FOR VERSION AS OF {before} ORDER BY id") == [(1,), (2,), (3,)]
    assert trino.sql(f"SELECT * FROM {table} WHERE id > 2 ORDER BY id") == [(3, None), (4, "x")]


def test_rolled_back_table_can_be_written_by_trino(
    each_trino: TrinoCatalog, catalog: RestCatalog, namespace: str
) -> None:
    trino, t = each_trino, create_history(each_trino, namespace)
    second = snapshots(trino, namespace)[2]
    trino.sql(f"ALTER TABLE {t} EXECUTE rollback_to_snapshot({second})")
    assert ids(trino, t) == [1, 2]
    trino.sql(f"INSERT INTO {t} VALUES (9)")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 2, 9]


def test_every_metadata_table_is_readable(trino: TrinoCatalog, namespace: str, table: str) -> None:
    counts = {
        name: trino.value(f"SELECT count(*) FROM {trino.table(namespace, f't${name}')}")
        for name in (
            "history",
            "metadata_log_entries",
            "snapshots",
            "files",
            "entries",
            "all_entries",
            "manifests",
            "all_manifests",
            "partitions",
            "refs",
        )
    }
    assert counts == {
        "history": 4,
        # Trino commits statistics separately, after the commit that adds the file.
        "metadata_log_entries": 7,
        "snapshots": 4,
        "files": 3,
        "entries": 3,
        "all_entries": 3,
        "manifests": 3,
        "all_manifests": 6,
        "partitions": 1,
        "refs": 1,
    }
    operations = trino.column(f"SELECT operation FROM {trino.table(namespace, 't$snapshots')}")
    assert operations == ["append"] * 4
    paths = trino.column(f'SELECT "$path" FROM {table} ORDER BY id')
    assert sorted(paths) == sorted(trino.column(f"SELECT file_path FROM {trino.table(namespace, 't$files')}"))


def test_changelog_is_readable(trino: TrinoCatalog, namespace: str, table: str) -> None:
    first, last = snapshots(trino, namespace)[1], snapshots(trino, namespace)[-1]
    changes = f"TABLE({trino.name}.system.table_changes('{namespace}', 't', {first}, {last}))"
    assert trino.sql(f"SELECT id, _change_type FROM {changes} ORDER BY _change_ordinal") == [
        (2, "insert"),
        (3, "insert"),
    ]


# -- maintenance -----------------------------------------------------------------------------------------------------


def test_optimize_merges_small_files(each_trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    trino, t = each_trino, create_history(each_trino, namespace)
    trino.sql(f"DELETE FROM {t} WHERE id = 2")
    trino.sql(f"ALTER TABLE {t} EXECUTE optimize")
    files = trino.sql(f"SELECT content, record_count FROM {trino.table(namespace, 't$files')}")
    assert files == [(0, 2)]
    table = catalog.load_table((namespace, "t"))
    assert table.metadata.snapshots[-1].summary is not None
    assert ids_of(table) == [1, 3]


def test_optimize_manifests_merges_manifests(trino: TrinoCatalog, namespace: str, table: str) -> None:
    trino.sql(f"ALTER TABLE {table} EXECUTE optimize_manifests")
    assert trino.value(f"SELECT count(*) FROM {trino.table(namespace, 't$manifests')}") == 1
    assert ids(trino, table) == [1, 2, 3]


def test_expiration_deletes_files_of_snapshots(
    each_trino: TrinoCatalog, catalog: RestCatalog, lake: Lake, s3: Any, namespace: str
) -> None:
    trino, t = each_trino, create_history(each_trino, namespace)
    trino.sql(f"ALTER TABLE {t} EXECUTE optimize")
    # Files are deleted with the snapshot that removed them, and the last snapshot stays.
    trino.sql(f"INSERT INTO {t} VALUES (4)")
    trino.sql(f"ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')", **AT_ONCE)
    assert len(snapshots(trino, namespace)) == 1
    assert ids(trino, t) == [1, 2, 3, 4]
    prefix = catalog.load_table((namespace, "t")).location().removeprefix(f"s3://{lake.warehouse}/") + "/"
    stored = {key for key in all_keys(s3, lake.warehouse, prefix) if key.endswith(".parquet")}
    live = set(trino.column(f"SELECT file_path FROM {trino.table(namespace, 't$files')}"))
    assert {f"s3://{lake.warehouse}/{key}" for key in stored} == live


def test_orphan_removal_deletes_only_orphans(
    each_trino: TrinoCatalog, catalog: RestCatalog, lake: Lake, s3: Any, namespace: str
) -> None:
    trino, t = each_trino, create_history(each_trino, namespace)
    prefix = catalog.load_table((namespace, "t")).location().removeprefix(f"s3://{lake.warehouse}/") + "/"
    known = set(all_keys(s3, lake.warehouse, prefix))
    for number in range(3):
        s3.put_object(Bucket=lake.warehouse, Key=f"{prefix}data/lost-{number}.parquet", Body=b"lost")
    trino.sql(f"ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '0s')", **AT_ONCE)
    assert set(all_keys(s3, lake.warehouse, prefix)) == known
    assert ids(trino, t) == [1, 2, 3]
