"""A batch is decided the same, however much of it is alike."""

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
def test_changes_are_those_of_one_record_after_the_other(known: float, deletes: float, keys: int, seed: int) -> None:
    chance = Random(seed)
    table = KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN})
    there = {key_of(key): SCHEMA_ID + b"old" for key in range(keys) if chance.random() < known}
    written = [key_of(chance.randrange(keys)) for _ in range(chance.choice((1, 12)))]
    records = [(key, None if chance.random() < deletes else b"row %d" % at) for at, key in enumerate(written)]
    batch = read_kv_batch(write_kv_batch(records, 1))
    merging = row_merger(table, (), MergeMode.MERGE)

    expected: list[tuple[int, bytes, bytes]] = []
    now = dict(there)
    for key, row in records:
        old = now.get(key)
        if row is None:
            if old is not None:
                expected.append((4, key, now.pop(key)))
            continue
        new = now[key] = SCHEMA_ID + row
        expected += [(1, key, new)] if old is None else [(2, b"", old), (3, key, new)]

    decision = decide(table, batch, merging, [there.get(key) for key in keys_to_read(table, batch, merging)])
    changes = decision.changes
    assert list(zip(changes.types, changes.keys, changes.values, strict=True)) == expected
    assert {key: now.get(key) for key in decision.values} == decision.values
    assert now == {key: value for key, value in {**there, **decision.values}.items() if value is not None}
    assert decision.added == len(now) - len(there)
