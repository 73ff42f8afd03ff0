"""Any sequence of commits keeps the table valid."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.iceberg.metadata import TableMetadata, parse_table, serialize_table, write_table

from ..samples import (
    COLUMNS,
    NOW,
    Json,
    action,
    add_snapshot,
    column,
    commit,
    make_table,
    partition,
    schema,
    set_ref,
    sort,
)
from .test_builder import KEY
from .test_snapshot_updates import partition_statistics, statistics
from .test_updates import TABLE_ACTIONS

SNAPSHOT_IDS = st.integers(1, 8)
SMALL = st.integers(-1, 4)
NAMES = st.sampled_from(["main", "b", "t"])
EXTRA = [column(7, "x", "int"), column(8, "y", "string"), column(9, "z", "date")]
KINDS = ["add-snapshot"] * 2 + ["set-snapshot-ref"] * 6 + TABLE_ACTIONS
SOURCES = [(1, "bucket[4]"), (1, "identity"), (2, "day"), (2, "hour"), (3, "truncate[2]"), (7, "identity"), (9, "void")]


def append(data: st.DataObject, base: TableMetadata) -> list[Json]:
    """A commit of data, as clients send it."""
    new = max(base.snapshots, default=0) + 1
    number = 0 if base.format_version == 1 else base.last_sequence_number + 1
    rows = (base.next_row_id, data.draw(st.integers(0, 5))) if base.format_version > 2 else None
    at = NOW + data.draw(st.integers(-100, 100))
    return [add_snapshot(new, number, parent=base.current_snapshot_id, at=at, rows=rows), set_ref(new)]


@st.composite
def snapshots(draw: st.DrawFn, base: TableMetadata) -> Json:
    """Any snapshot, valid or not."""
    number = draw(st.integers(0, 2)) + base.last_sequence_number
    return add_snapshot(
        draw(SNAPSHOT_IDS),
        0 if base.format_version == 1 else number,
        parent=draw(st.none() | SNAPSHOT_IDS),
        at=NOW + draw(st.integers(-100, 100)),
        rows=(base.next_row_id + draw(st.integers(-1, 3)), draw(st.integers(0, 5)))
        if base.format_version > 2
        else None,
        schema_id=draw(st.none() | SMALL),
        key_id=draw(st.sampled_from([None, "k1"])),
    )


def draw_update(data: st.DataObject, base: TableMetadata) -> Json:
    def fields() -> list[tuple[int, str]]:
        return data.draw(st.lists(st.sampled_from(SOURCES), unique=True, max_size=2))

    match data.draw(st.sampled_from(KINDS)):
        case "add-snapshot":
            return data.draw(snapshots(base))
        case "set-snapshot-ref":
            known = st.sampled_from(sorted(base.snapshots) or [1])
            return set_ref(
                data.draw(known | SNAPSHOT_IDS), data.draw(NAMES), data.draw(st.sampled_from(["branch", "tag"]))
            )
        case "add-schema":
            kept = data.draw(st.integers(1, len(COLUMNS["fields"])))
            added = data.draw(st.integers(0, len(EXTRA)))
            return action("add-schema", schema=schema(*COLUMNS["fields"][:kept], *EXTRA[:added]))
        case "add-spec":
            return action("add-spec", spec={"fields": [partition(id_, how, f"p{id_}{how}") for id_, how in fields()]})
        case "add-sort-order":
            return action("add-sort-order", sort_order={"fields": [sort(id_, how) for id_, how in fields()]})
        case "set-current-schema":
            return action("set-current-schema", schema_id=data.draw(SMALL))
        case "set-default-spec":
            return action("set-default-spec", spec_id=data.draw(SMALL))
        case "set-default-sort-order":
            return action("set-default-sort-order", sort_order_id=data.draw(SMALL))
        case "remove-snapshots":
            return action("remove-snapshots", snapshot_ids=data.draw(st.lists(SNAPSHOT_IDS, max_size=3)))
        case "remove-snapshot-ref":
            return action("remove-snapshot-ref", ref_name=data.draw(NAMES))
        case "remove-schemas":
            return action("remove-schemas", schema_ids=data.draw(st.lists(SMALL, max_size=2)))
        case "remove-partition-specs":
            return action("remove-partition-specs", spec_ids=data.draw(st.lists(SMALL, max_size=2)))
        case "set-statistics":
            return statistics(data.draw(SNAPSHOT_IDS))
        case "set-partition-statistics":
            return partition_statistics(data.draw(SNAPSHOT_IDS))
        case "remove-statistics":
            return action("remove-statistics", snapshot_id=data.draw(SNAPSHOT_IDS))
        case "set-properties":
            return action("set-properties", updates={"a": data.draw(st.sampled_from("12"))})
        case "remove-properties":
            return action("remove-properties", removals=["a"])
        case "add-encryption-key":
            return action("add-encryption-key", encryption_key=KEY)
        case "remove-encryption-key":
            return action("remove-encryption-key", key_id="k1")
        case _:
            return action("upgrade-format-version", format_version=data.draw(st.integers(1, 3)))


def check_one(table: TableMetadata) -> None:
    """Invariants of any table."""
    assert table.current_schema_id in table.schemas
    assert table.default_spec_id in table.specs
    assert table.default_sort_order_id in table.sort_orders
    for named in (table.schemas, table.snapshots):
        written = [getattr(one, "id", None) or getattr(one, "snapshot_id", 0) for one in named.values()]
        assert written == list(named)
    assert {reference.snapshot_id for reference in table.refs.values()} <= table.snapshots.keys()
    main = table.refs.get("main")
    assert table.current_snapshot_id == (None if main is None else main.snapshot_id)
    assert max(one.highest_field_id for one in table.schemas.values()) <= table.last_column_id
    assert all(one.sequence_number <= table.last_sequence_number for one in table.snapshots.values())
    assert [entry.timestamp_ms for entry in table.snapshot_log] == sorted(e.timestamp_ms for e in table.snapshot_log)
    assert {entry.snapshot_id for entry in table.snapshot_log} <= table.snapshots.keys()
    if table.current_snapshot_id is not None:
        assert table.snapshot_log[-1].snapshot_id == table.current_snapshot_id
        assert table.last_updated_ms >= table.snapshot_log[-1].timestamp_ms
    for files in (table.statistics, table.partition_statistics):
        described = [file.snapshot_id for file in files]
        assert len(set(described)) == len(described)
        assert set(described) <= table.snapshots.keys()
    assert parse_table(serialize_table(table)) == table


def check_step(before: TableMetadata, after: TableMetadata) -> None:
    """Invariants between a table and its successor."""
    for never_falls in (
        "format_version",
        "last_updated_ms",
        "last_column_id",
        "last_partition_id",
        "last_sequence_number",
        "next_row_id",
    ):
        assert getattr(after, never_falls) >= getattr(before, never_falls)
    assert after.uuid == before.uuid
    for known in before.schemas.keys() & after.schemas.keys():
        assert before.schemas[known] == after.schemas[known]
    for known in before.specs.keys() & after.specs.keys():
        assert before.specs[known] == after.specs[known]
    if after is not before:
        assert after.metadata_log[-1].timestamp_ms == before.last_updated_ms
        documents = [json.loads(serialize_table(table)) for table in (before, after)]
        for document in documents:
            del document["last-updated-ms"], document["metadata-log"]
        assert documents[0] != documents[1]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.integers(1, 3), st.data())
def test_any_sequence_of_commits_keeps_the_table_valid(version: int, data: st.DataObject) -> None:
    table = make_table(version)
    text = write_table(table)
    now_ms = NOW
    for number in range(data.draw(st.integers(1, 12))):
        now_ms += data.draw(st.integers(-20, 50))
        asked = append(data, table) if data.draw(st.booleans()) else []
        asked += [draw_update(data, table) for _ in range(data.draw(st.integers(0 if asked else 1, 3)))]
        before = serialize_table(table)
        with suppress(InvalidInput, CommitConflict):
            after = commit(table, *asked, now_ms=now_ms, previous_location=f"s3://lake/{number}.json")
            check_one(after)
            check_step(table, after)
            assert serialize_table(table) == before
            # The recorded growth is correct, and serialization with it gives the same text as without.
            added = [one for key, one in after.snapshots.items() if key not in table.snapshots]
            assert list(after.snapshots_since(table)) == added
            text = write_table(after, base=table, before=text) if after is not table else text
            assert b"".join(text.pieces) == serialize_table(after)
            if data.draw(st.booleans()):
                text = text.whole()
            table = after
