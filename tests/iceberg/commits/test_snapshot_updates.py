"""Updates of snapshots, branches, tags and statistics."""

from __future__ import annotations

import pytest

from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.iceberg.metadata import TableMetadata

from ..samples import LOCATION, NOW, Json, action, add_snapshot, commit, make_table, set_ref, snapshot, written


def append(base: TableMetadata, id_: int, *, at: int | None = None, now_ms: int | None = None) -> TableMetadata:
    number = base.last_sequence_number + 1
    when = NOW + number if at is None else at
    parent = base.current_snapshot_id
    update = add_snapshot(id_, number if base.format_version > 1 else 0, parent=parent, at=when)
    if base.format_version > 2:
        update["snapshot"].update({"first-row-id": base.next_row_id, "added-rows": 10})
    return commit(base, update, set_ref(id_), now_ms=when if now_ms is None else now_ms)


def grown(*ids: int, version: int = 2) -> TableMetadata:
    base = make_table(version)
    for id_ in ids:
        base = append(base, id_)
    return base


def log(metadata: TableMetadata) -> list[tuple[int, int]]:
    return [(entry.snapshot_id, entry.timestamp_ms - NOW) for entry in metadata.snapshot_log]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_append_adds_a_snapshot_and_moves_main(version: int) -> None:
    after = grown(10, 11, version=version)
    assert list(after.snapshots) == [10, 11]
    assert after.current_snapshot_id == after.refs["main"].snapshot_id == 11
    assert after.last_sequence_number == (0 if version == 1 else 2)
    assert [entry.snapshot_id for entry in after.snapshot_log] == [10, 11]
    assert after.next_row_id == (20 if version == 3 else 0)


def test_snapshot_text_of_the_client_is_preserved() -> None:
    after = commit(make_table(), add_snapshot(1, 1, key_id="k", x_engine={"a": [1, None]}))
    assert written(after)["snapshots"] == [snapshot(1, 1, key_id="k", x_engine={"a": [1, None]})]


def test_snapshot_without_a_branch_is_staged() -> None:
    after = commit(make_table(), add_snapshot(10, 1))
    assert after.current_snapshot_id is None
    assert after.refs == {}
    assert after.snapshot_log == ()
    assert after.last_sequence_number == 1


@pytest.mark.parametrize(
    ("update", "condition", "message"),
    [
        (add_snapshot(11, 9, parent=10), "snapshot-id", "the snapshot id exists already. snapshot=11"),
        (add_snapshot(12, 2, parent=11), "sequence-number", "sequence_number=2 last=2"),
        (
            add_snapshot(12, 9, parent=7),
            "parent-snapshot-id",
            "no longer has the parent snapshot",
        ),
        (add_snapshot(12, 9, parent=11, schema_id=4), "schema-id", "no longer has the schema"),
    ],
)
def test_snapshot_of_an_outdated_state_is_a_conflict(update: Json, condition: str, message: str) -> None:
    with pytest.raises(CommitConflict, match=message) as caught:
        commit(grown(10, 11), update)
    assert caught.value.condition == condition


def test_assigned_row_ids_are_a_conflict() -> None:
    base = grown(10, version=3)
    with pytest.raises(CommitConflict, match="first_row_id=9 next=10") as caught:
        commit(base, add_snapshot(11, 2, parent=10, rows=(9, 5)))
    assert (caught.value.condition, caught.value.expected, caught.value.found) == ("first-row-id", 9, 10)


def test_row_ids_can_have_gaps_but_are_never_reused() -> None:
    after = commit(grown(10, version=3), add_snapshot(11, 2, parent=10, rows=(100, 5)))
    assert after.next_row_id == 105


def test_snapshot_without_parent_can_have_an_old_sequence_number() -> None:
    after = commit(grown(10, 11), add_snapshot(12, 1))
    assert after.last_sequence_number == 2


@pytest.mark.parametrize(
    ("version", "update", "message"),
    [
        (2, add_snapshot(-2, 1), "snapshot-id must not be negative"),
        (2, add_snapshot(1, 1, manifest_list=None, manifests=["m"]), "a snapshot requires a manifest-list"),
        (2, add_snapshot(1, 1, summary=None), "summary requires an operation"),
        (
            2,
            add_snapshot(1, 1, summary={"operation": "rewrite"}),
            "summary requires an operation: append.* found=rewrite",
        ),
        (2, add_snapshot(1, 1, summary={"operation": "append", "n": 1}), "add-snapshot: snapshot.summary"),
        (2, add_snapshot(1, 1, timestamp_ms="now"), "add-snapshot: snapshot.timestamp-ms: expected `int`"),
        (1, add_snapshot(1, 1), "of format version 1 has no sequence number"),
        (1, add_snapshot(1, manifest_list=None), "add-snapshot: snapshot.manifest-list: missing"),
        (3, add_snapshot(1, 1), "in format version 3 a snapshot requires first-row-id"),
        (3, add_snapshot(1, 1, first_row_id=0), "in format version 3 a snapshot requires added-rows"),
        (3, add_snapshot(1, 1, rows=(0, -1)), "add-snapshot: snapshot.added-rows: expected `int` >= 0"),
    ],
)
def test_incomplete_snapshots_are_rejected(version: int, update: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        commit(make_table(version), update)


def test_version_1_accepts_inline_manifests() -> None:
    after = commit(make_table(1), add_snapshot(1, manifest_list=None, manifests=["m0"], summary=None), set_ref(1))
    assert after.snapshots[1].manifests == ("m0",)


def test_branches_and_tags_are_set_moved_and_removed() -> None:
    base = grown(10, 11)
    after = commit(base, set_ref(10, "b"), set_ref(10, "t", "tag", max_ref_age_ms=5, x_color="red"))
    assert written(after)["refs"]["t"] == {"type": "tag", "snapshot-id": 10, "max-ref-age-ms": 5, "x-color": "red"}
    assert after.current_snapshot_id == 11
    assert after.snapshot_log == base.snapshot_log
    moved = commit(after, set_ref(11, "b", min_snapshots_to_keep=3, max_snapshot_age_ms=7))
    assert (moved.refs["b"].snapshot_id, moved.refs["b"].min_snapshots_to_keep) == (11, 3)
    removed = commit(moved, action("remove-snapshot-ref", ref_name="b"), action("remove-snapshot-ref", ref_name="no"))
    assert set(removed.refs) == {"main", "t"}


def test_setting_an_equal_reference_changes_nothing() -> None:
    base = commit(grown(10), set_ref(10, "b", min_snapshots_to_keep=3))
    assert commit(base, set_ref(10)) is base
    assert commit(base, set_ref(10, "b", max_ref_age_ms=None, min_snapshots_to_keep=3)) is base
    assert commit(base, set_ref(10, "b")) is not base


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (set_ref(99), "branch main cannot be set: the table has no such snapshot. snapshot=99"),
        (set_ref(10, "main", "tag"), "main must be a branch, not a tag"),
        (set_ref(10, "", "tag"), "a branch or tag must have a name"),
        (set_ref(10, "t", "tag", min_snapshots_to_keep=1), "tag t cannot have min-snapshots-to-keep"),
        (
            set_ref(10, "t", "tag", max_snapshot_age_ms=1),
            "tag t cannot have min-snapshots-to-keep or max-snapshot-age-ms",
        ),
        (set_ref(10, "b", min_snapshots_to_keep=0), "set-snapshot-ref.min-snapshots-to-keep: expected `int` >= 1"),
        (set_ref(10, "b", max_snapshot_age_ms=-1), "set-snapshot-ref.max-snapshot-age-ms: expected `int` >= 1"),
        (set_ref(10, "b", max_ref_age_ms=0), "set-snapshot-ref.max-ref-age-ms: expected `int` >= 1"),
        (set_ref(10, "b", "twig"), r"updates\[0\].type: invalid enum value 'twig'"),
    ],
)
def test_invalid_references_are_rejected(update: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        commit(grown(10), update)


def test_without_main_there_is_no_current_snapshot() -> None:
    base = grown(10)
    after = commit(base, action("remove-snapshot-ref", ref_name="main"))
    assert after.current_snapshot_id is None
    assert list(after.snapshots) == [10]
    assert after.snapshot_log == base.snapshot_log


def test_log_has_snapshot_time_for_commits_and_present_time_for_rollbacks() -> None:
    base = grown(10, 11)
    assert log(base) == [(10, 1), (11, 2)]
    back = commit(base, set_ref(10), now_ms=NOW + 500)
    assert log(back) == [(10, 1), (11, 2), (10, 500)]
    assert back.current_snapshot_id == 10


def test_log_times_never_decrease() -> None:
    base = append(make_table(), 10, at=NOW + 1000)
    after = append(base, 11, at=NOW + 3)
    assert log(after) == [(10, 1000), (11, 1000)]
    assert log(commit(after, set_ref(10), now_ms=NOW)) == [(10, 1000), (11, 1000), (10, 1000)]


def test_intermediate_snapshots_are_not_logged() -> None:
    after = commit(
        grown(10),
        add_snapshot(11, 2, parent=10, at=NOW + 20),
        set_ref(11),
        add_snapshot(12, 3, parent=11, at=NOW + 30),
        set_ref(12),
    )
    assert log(after) == [(10, 1), (12, 30)]
    assert list(after.snapshots) == [10, 11, 12]


def test_snapshot_replaced_in_its_commit_is_not_logged() -> None:
    after = commit(
        grown(10), add_snapshot(11, 2, parent=10), set_ref(11), action("remove-snapshot-ref", ref_name="main")
    )
    assert log(after) == [(10, 1)]


def test_snapshot_added_and_removed_in_a_commit_leaves_the_log_unchanged() -> None:
    after = commit(
        grown(10),
        add_snapshot(11, 2, parent=10),
        set_ref(11),
        add_snapshot(12, 3, parent=11, at=NOW + 30),
        set_ref(12),
        action("remove-snapshots", snapshot_ids=[11]),
    )
    assert log(after) == [(10, 1), (12, 30)]


def test_log_before_a_removed_snapshot_is_truncated() -> None:
    base = grown(10, 11, 12, 13)
    after = commit(base, action("remove-snapshots", snapshot_ids=[11]))
    assert log(after) == [(12, 3), (13, 4)]
    assert log(commit(base, action("remove-snapshots", snapshot_ids=[10]))) == [(11, 2), (12, 3), (13, 4)]


def test_removing_a_snapshot_removes_statistics_and_references() -> None:
    base = commit(grown(10, 11), set_ref(10, "old", "tag"), statistics(10), partition_statistics(10), statistics(11))
    after = commit(base, action("remove-snapshots", snapshot_ids=[10, 77]))
    assert list(after.snapshots) == [11]
    assert set(after.refs) == {"main"}
    assert [file.snapshot_id for file in after.statistics] == [11]
    assert after.partition_statistics == ()
    assert after.snapshots[11].parent_snapshot_id == 10
    assert commit(base, action("remove-snapshots", snapshot_ids=[77])) is base


def test_removing_the_current_snapshot_leaves_none() -> None:
    after = commit(grown(10, 11), action("remove-snapshots", snapshot_ids=[11]))
    assert after.current_snapshot_id is None
    assert "main" not in after.refs
    assert log(after) == []


def statistics(id_: int, path: str = "a.puffin", **more: object) -> Json:
    file = {
        "snapshot-id": id_,
        "statistics-path": f"{LOCATION}/metadata/{path}",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 10,
        "blob-metadata": [
            {"type": "apache-datasketches-theta-v1", "snapshot-id": id_, "sequence-number": 1, "fields": [1]}
        ],
    }
    return action("set-statistics", statistics=file, **more)


def partition_statistics(id_: int, path: str = "p.parquet") -> Json:
    file = {"snapshot-id": id_, "statistics-path": f"{LOCATION}/metadata/{path}", "file-size-in-bytes": 100}
    return action("set-partition-statistics", partition_statistics=file)


@pytest.mark.parametrize(("make", "name"), [(statistics, "statistics"), (partition_statistics, "partition-statistics")])
def test_snapshot_has_one_statistics_file(make: object, name: str) -> None:
    assert callable(make)
    base = commit(grown(10, 11), make(10), make(11))
    assert commit(base, make(10)) is base
    after = commit(base, make(10, "other"))
    assert written(after)[name][0]["statistics-path"].endswith("/other")
    assert len(written(after)[name]) == 2
    removed = commit(after, action(f"remove-{name}", snapshot_id=10))
    assert [file["snapshot-id"] for file in written(removed)[name]] == [11]
    assert commit(removed, action(f"remove-{name}", snapshot_id=10)) is removed


def test_redundant_snapshot_id_must_match() -> None:
    assert len(commit(grown(10), statistics(10, snapshot_id=10)).statistics) == 1
    with pytest.raises(InvalidInput, match=r"set-statistics has two different snapshot ids\. outside=9 inside=10"):
        commit(grown(10), statistics(10, snapshot_id=9))


def test_statistics_require_an_existing_snapshot() -> None:
    for update in (statistics(9), partition_statistics(9)):
        with pytest.raises(InvalidInput, match=r"statistics refer to an unknown snapshot\. snapshot=9"):
            commit(grown(10), update)


def test_statistics_must_be_complete() -> None:
    with pytest.raises(
        InvalidInput, match="set-statistics: statistics: object missing required field `statistics-path`"
    ):
        commit(grown(10), action("set-statistics", statistics={"snapshot-id": 10}))
