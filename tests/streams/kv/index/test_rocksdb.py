"""The RocksDB index after a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory


def test_flushed_rows_survive_a_crash_with_their_log_offset(tmp_path: Path) -> None:
    memory = RocksMemory(8 << 20, 8 << 20)
    index = RocksIndex(tmp_path / "index", memory)
    index.apply({b"a": b"\1\0x", b"b": b"\1\0y"}, 10, 2)
    index.flush()
    assert index.flushed_offset == 10
    shutil.copytree(tmp_path / "index", tmp_path / "crashed")
    index.close()
    again = RocksIndex(tmp_path / "crashed", memory)
    assert (again.log_offset, again.row_count, again.get_many([b"b"])) == (10, 2, [b"\1\0y"])
    again.close()
