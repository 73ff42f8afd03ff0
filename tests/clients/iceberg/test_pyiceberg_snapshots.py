"""PyIceberg and snapshots: time travel, branches, tags, rollback, expiration."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, RESTError
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people

pytestmark = pytest.mark.integration


@pytest.fixture
def table(catalog: RestCatalog, namespace: str) -> Table:
    """A table of three snapshots, each with one more row."""
    table: Table = catalog.create_table((namespace, "t"), SCHEMA)
    for number in (1, 2, 3):
        table.append(people(number))
    return table


def snapshots_of(table: Table) -> list[int]:
    """The ids of a table's snapshots, oldest first."""
    return [one.snapshot_id for one in sorted(table.snapshots(), key=lambda one: one.sequence_number or 0)]


def test_each_snapshot_has_its_rows(catalog: RestCatalog, table: Table) -> None:
    table = catalog.load_table(table.name())
    first, second, third = snapshots_of(table)
    assert [ids_of(table, snapshot_id=one) for one in (first, second, third)] == [[1], [1, 2], [1, 2, 3]]
    moment = next(one.timestamp_ms for one in table.snapshots() if one.snapshot_id == second)
    found = table.snapshot_as_of_timestamp(moment)
    assert found is not None
    assert found.snapshot_id == second
    assert [entry.snapshot_id for entry in table.history()] == [first, second, third]


def test_only_rows_appended_between_two_snapshots_are_read(table: Table) -> None:
    first, _, third = snapshots_of(table)
    scan = table.incremental_append_scan(from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=third)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [2, 3]


def test_branch_is_independent_of_main(catalog: RestCatalog, table: Table) -> None:
    first, _, third = snapshots_of(table)
    table.manage_snapshots().create_branch(
        first, "dev/ünï", max_ref_age_ms=10**12, max_snapshot_age_ms=10**11, min_snapshots_to_keep=3
    ).commit()
    reference = catalog.load_table(table.name()).refs()["dev/ünï"]
    assert reference.snapshot_ref_type is SnapshotRefType.BRANCH
    assert (reference.max_ref_age_ms, reference.max_snapshot_age_ms, reference.min_snapshots_to_keep) == (
        10**12,
        10**11,
        3,
    )
    table.append(people(10), branch="dev/ünï")
    table.append(people(11), branch="dev/ünï")
    table = catalog.load_table(table.name())
    assert ids_of(table) == [1, 2, 3]
    assert sorted(table.scan().use_ref("dev/ünï").to_arrow()["id"].to_pylist()) == [1, 10, 11]
    current = table.current_snapshot()
    assert current is not None
    assert current.snapshot_id == third


def test_first_append_creates_the_branch(catalog: RestCatalog, table: Table) -> None:
    table.append(people(9), branch="new")
    table = catalog.load_table(table.name())
    assert sorted(table.scan().use_ref("new").to_arrow()["id"].to_pylist()) == [9]
    assert ids_of(table) == [1, 2, 3]


def test_deletes_and_overwrites_of_a_branch_leave_main_unchanged(catalog: RestCatalog, table: Table) -> None:
    table.manage_snapshots().create_branch(snapshots_of(table)[-1], "dev").commit()
    table.delete("id = 1", branch="dev")
    table.overwrite(people(7), overwrite_filter="id = 2", branch="dev")
    table.upsert(people(3, 8, name="dev"), join_cols=["id"], branch="dev")
    table = catalog.load_table(table.name())
    assert sorted(table.scan().use_ref("dev").to_arrow()["id"].to_pylist()) == [3, 7, 8]
    assert ids_of(table) == [1, 2, 3]


def test_tag_keeps_its_snapshot(catalog: RestCatalog, table: Table) -> None:
    first, second, _ = snapshots_of(table)
    with table.manage_snapshots() as manage:
        manage.create_tag(first, "v1").create_tag(second, "v2", max_ref_age_ms=10**12)
    table.append(people(4))
    table = catalog.load_table(table.name())
    assert sorted(table.scan().use_ref("v2").to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.refs()["v2"].max_ref_age_ms == 10**12
    with pytest.raises(ValueError, match="tag"):
        table.append(people(5), branch="v1")
    table.manage_snapshots().remove_tag("v1").commit()
    assert set(catalog.load_table(table.name()).refs()) == {"main", "v2"}


def test_stale_update_of_a_reference_is_refused(catalog: RestCatalog, table: Table) -> None:
    first, second, third = snapshots_of(table)
    other = catalog.load_table(table.name())
    table.manage_snapshots().create_branch(first, "dev").commit()
    with pytest.raises(CommitFailedException):
        other.manage_snapshots().create_branch(second, "dev").commit()
    table.append(people(10), branch="dev")
    stale = catalog.load_table(table.name())
    table.append(people(11), branch="dev")
    with pytest.raises(CommitFailedException):
        stale.manage_snapshots().remove_branch("dev").commit()
    assert "dev" in catalog.load_table(table.name()).refs()
    table.manage_snapshots().remove_branch("dev").commit()
    assert set(catalog.load_table(table.name()).refs()) == {"main"}
    current = table.current_snapshot()
    assert current is not None
    assert current.snapshot_id == third


def test_rolled_back_table_can_be_written(catalog: RestCatalog, table: Table) -> None:
    first, second, third = snapshots_of(table)
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    assert ids_of(catalog.load_table(table.name())) == [1, 2]
    table.append(people(4))
    table = catalog.load_table(table.name())
    assert ids_of(table) == [1, 2, 4]
    current = table.current_snapshot()
    assert current is not None
    assert current.parent_snapshot_id == second
    assert ids_of(table, snapshot_id=third) == [1, 2, 3]
    table.manage_snapshots().set_current_snapshot(snapshot_id=third).commit()
    assert ids_of(catalog.load_table(table.name())) == [1, 2, 3]
    table.manage_snapshots().create_tag(first, "v1").commit()
    table.manage_snapshots().set_current_snapshot(ref_name="v1").commit()
    assert ids_of(catalog.load_table(table.name())) == [1]


def test_expiration_keeps_referenced_snapshots(catalog: RestCatalog, table: Table) -> None:
    first, second, third = snapshots_of(table)
    table.manage_snapshots().create_tag(first, "keep").commit()
    table.maintenance.expire_snapshots().by_id(second).commit()
    table = catalog.load_table(table.name())
    assert snapshots_of(table) == [first, third]
    assert ids_of(table) == [1, 2, 3]
    assert sorted(table.scan().use_ref("keep").to_arrow()["id"].to_pylist()) == [1]
    table.append(people(4))
    assert ids_of(catalog.load_table(table.name())) == [1, 2, 3, 4]


def test_refs_mode_loads_only_referenced_snapshots(lake: Lake, catalog: RestCatalog, table: Table) -> None:
    first, _, third = snapshots_of(table)
    table.manage_snapshots().create_tag(first, "v1").commit()
    with lake.catalog(properties={"snapshot-loading-mode": "refs"}) as sparing:
        seen = sparing.load_table(table.name())
        assert snapshots_of(seen) == [first, third]
        assert ids_of(seen) == [1, 2, 3]
        seen.append(people(4))
        assert ids_of(seen) == [1, 2, 3, 4]
    assert len(catalog.load_table(table.name()).snapshots()) == 4
    with lake.catalog(properties={"snapshot-loading-mode": "all"}) as generous:
        assert len(generous.load_table(table.name()).snapshots()) == 4


def test_commit_on_an_expired_snapshot_is_refused(catalog: RestCatalog, table: Table) -> None:
    second = snapshots_of(table)[1]
    stale = catalog.load_table(table.name())
    table.maintenance.expire_snapshots().by_id(second).commit()
    with pytest.raises(RESTError):
        stale.manage_snapshots().create_tag(second, "gone").commit()
    assert set(catalog.load_table(table.name()).refs()) == {"main"}
