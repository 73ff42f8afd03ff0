"""A batch has the same effect as its records one after the other, however many share a key."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.fluss.kv_batches import read_kv_batch, write_kv_batch
from lakebed.streams.kv.merge_engines import row_merger
from lakebed.streams.kv.put_decision import decide, keys_to_read
from lakebed.streams.kv.table import KvSettings, KvTable
from lakebed.streams.seam import MergeMode
from tests.contracts.kv_bucket import PLAIN, key_of

SCHEMA_ID = b"\1\0"


@pytest.mark.parametrize("known", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("deletes", [0.0, 0.3])
@pytest.mark.parametrize("keys", [5, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_batch_has_the_changes_of_its_records_in_sequence(known: float, deletes: float, keys: int, seed: int) -> None:
    random = Random(seed)
    table = KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN})
    stored = {key_of(key): SCHEMA_ID + b"old" for key in range(keys) if random.random() < known}
    written = [key_of(random.randrange(keys)) for _ in range(random.choice((1, 12)))]
    records = [(key, None if random.random() < deletes else b"row %d" % at) for at, key in enumerate(written)]
    batch = read_kv_batch(write_kv_batch(records, 1))
    merging = row_merger(table, (), MergeMode.MERGE)

    expected: list[tuple[int, bytes, bytes]] = []
    current = dict(stored)
    for key, row in records:
        old = current.get(key)
        if row is None:
            if old is not None:
                expected.append((4, key, current.pop(key)))
            continue
        new = current[key] = SCHEMA_ID + row
        expected += [(1, key, new)] if old is None else [(2, b"", old), (3, key, new)]

    decision = decide(table, batch, merging, [stored.get(key) for key in keys_to_read(table, batch, merging)])
    changes = decision.changes
    assert list(zip(changes.types, changes.keys, changes.values, strict=True)) == expected
    assert {key: current.get(key) for key in decision.values} == decision.values
    assert current == {key: value for key, value in {**stored, **decision.values}.items() if value is not None}
    assert decision.added == len(current) - len(stored)
