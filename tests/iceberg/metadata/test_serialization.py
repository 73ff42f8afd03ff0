"""The text of a document, and the part that it shares with its predecessor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebed.iceberg.metadata import TableMetadata, parse_table, serialize_table, write_table
from lakebed.iceberg.metadata.serialization import TableText, TextRun

from ..samples import action, add_snapshot, commit, make_table, set_ref


def _append(table: TableMetadata, snapshot_id: int, *more: dict[str, object]) -> TableMetadata:
    return commit(
        table,
        add_snapshot(snapshot_id, table.last_sequence_number + 1, parent=table.current_snapshot_id),
        set_ref(snapshot_id),
        *more,
    )


def _grown(count: int) -> tuple[TableMetadata, TableText]:
    table = make_table(2)
    for number in range(1, count + 1):
        table = _append(table, number)
    return table, write_table(table)


def test_run_grows_after_its_settled_part() -> None:
    table, _ = _grown(3)
    one, two, three = table.snapshots.values()
    run = TextRun().grown([one])
    assert (run.settled, run.recent) == (b"", bytes(one.written))
    run = run.whole().grown([two]).grown([three])
    assert run.settled == bytes(one.written)
    assert run.recent == b",%b,%b" % (bytes(two.written), bytes(three.written))
    assert run.size == len(run.settled + run.recent)
    assert run.grown([]) is run
    assert run.whole() == TextRun(run.settled + run.recent)
    assert run.whole().whole().recent == b""


def test_joined_pieces_are_the_document() -> None:
    table, text = _grown(3)
    assert b"".join(text.pieces) == serialize_table(table)
    assert text.size == len(serialize_table(table))
    assert parse_table(b"".join(text.pieces)) == table
    assert (text.recent_size, text.settled_size) == (0, len(text.snapshots.settled) + len(text.log.settled))


@pytest.mark.parametrize("snapshots", [0, 1, 5])
def test_grown_table_shares_the_text_of_its_history(snapshots: int) -> None:
    base, before = _grown(snapshots)
    table = base
    text = before
    for number in (101, 102):
        after = _append(table, number)
        text = write_table(after, base=table, before=text)
        table = after
    assert text.snapshots.settled is before.snapshots.settled
    assert text.log.settled is before.log.settled
    assert b"".join(text.pieces) == serialize_table(table)
    assert b"".join(text.whole().pieces) == serialize_table(table)
    assert text.whole().recent_size == 0
    assert text.whole().size == text.size


def test_commit_without_data_shares_all_history() -> None:
    base, before = _grown(4)
    after = commit(base, action("set-properties", updates={"a": "1"}))
    text = write_table(after, base=base, before=before)
    assert text.snapshots is before.snapshots
    assert text.log is before.log
    assert b"".join(text.pieces) == serialize_table(after)


@pytest.mark.parametrize("removed", [1, 4])
def test_history_after_a_removal_is_written_again(removed: int) -> None:
    base, before = _grown(5)
    after = _append(base, 9, action("remove-snapshots", snapshot_ids=[removed]))
    assert after.grown_from(base) is None
    text = write_table(after, base=base, before=before)
    assert text.recent_size == 0
    assert b"".join(text.pieces) == serialize_table(after)


def test_snapshots_rewritten_by_an_upgrade_are_written_again() -> None:
    base = commit(make_table(1), add_snapshot(1, 0), set_ref(1))
    after = commit(base, action("upgrade-format-version", format_version=2))
    assert after.grown_from(base) is None
    assert b"".join(write_table(after, base=base, before=write_table(base)).pieces) == serialize_table(after)


def test_growth_refers_to_the_exact_base_object() -> None:
    base, before = _grown(2)
    after = _append(base, 9)
    growth = after.grown_from(base)
    assert growth is not None
    assert [one.snapshot_id for one in growth.snapshots] == [9]
    assert [one.snapshot_id for one in growth.log] == [9]
    twin = parse_table(serialize_table(base))
    assert twin == base
    assert after.grown_from(twin) is None
    assert after.grown_from(None) is None
    changed = replace(after, snapshots={})
    assert changed.grown_from(base) is None, "a copy with other fields claims nothing"
    assert parse_table(serialize_table(after)).grown_from(base) is None
    assert after == replace(after), "how a table came to be is no part of what it is"
    assert b"".join(write_table(after, base=twin, before=before).pieces) == serialize_table(after)


def test_growth_does_not_keep_its_base_in_memory() -> None:
    base, _ = _grown(2)
    after = _append(base, 9)
    assert after.growth is not None
    assert after.growth.before() is base
    del base
    assert after.growth.before() is None


def test_snapshots_since_another_state_are_found_without_growth() -> None:
    base, _ = _grown(2)
    after = _append(base, 9)
    assert [one.snapshot_id for one in after.snapshots_since(base)] == [9]
    assert [one.snapshot_id for one in parse_table(serialize_table(after)).snapshots_since(base)] == [9]
    assert [one.snapshot_id for one in after.snapshots_since(None)] == [1, 2, 9]
    assert list(base.snapshots_since(after)) == []
