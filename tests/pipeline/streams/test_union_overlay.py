from __future__ import annotations

import pyarrow as pa
import pytest

from lakebed.pipeline.streams import union_overlay
from lakebed.pipeline.streams.union_overlay import Overlay

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
INSERT, BEFORE, AFTER, DELETE = 1, 2, 3, 4


def batch(*rows: tuple[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": number, "name": name} for number, name in rows], schema=SCHEMA)


def test_last_change_of_a_key_is_applied() -> None:
    overlay = Overlay(
        SCHEMA,
        ["id"],
        [
            (batch((1, "a"), (2, "b"), (3, "c")), bytes([INSERT, INSERT, INSERT])),
            (batch((1, "a"), (1, "A"), (2, "b")), bytes([BEFORE, AFTER, DELETE])),
            (batch((2, "again")), bytes([INSERT])),
            (batch((3, "c")), bytes([DELETE])),
        ],
    )
    assert overlay.rows.to_pylist() == [{"id": 1, "name": "A"}, {"id": 2, "name": "again"}]
    before = batch((1, "old"), (2, "old"), (3, "old"), (4, "same"))
    assert [row for each in overlay.over([before]) for row in each.to_pylist()] == [{"id": 4, "name": "same"}]


def test_unchanged_rows_are_kept() -> None:
    before = batch((1, "a"))
    overlay = Overlay(SCHEMA, ["id"])
    assert [*overlay.over([before])] == [before]
    assert overlay.rows.num_rows == 0
    # An update whose new row is after the end of the read.
    assert Overlay(SCHEMA, ["id"], [(before, bytes([BEFORE]))]).rows.num_rows == 0


def test_rows_are_joined_in_portions_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(union_overlay, "_BATCH_ROWS", 4)
    overlay = Overlay(SCHEMA, ["id"], [(batch((5, "E"), (0, "Z")), bytes([AFTER, DELETE]))])
    before = (batch((number, "x"), (number + 1, "x"), (number + 2, "x")) for number in range(0, 12, 3))
    kept = [row["id"] for each in overlay.over(before) for row in each.to_pylist()]
    assert kept == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
