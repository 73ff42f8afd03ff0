"""The index on disk: what is there after a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory


def test_what_was_flushed_is_on_disk_with_how_far_it_goes(tmp_path: Path) -> None:
    memory = RocksMemory(8 << 20, 8 << 20)
    index = RocksIndex(tmp_path / "index", memory)
    index.apply({b"a": b"\1\0x", b"b": b"\1\0y"}, 10, 2)
    index.flush()
    assert index.flushed_offset == 10
    shutil.copytree(tmp_path / "index", tmp_path / "as a crash leaves it")
    index.close()
    again = RocksIndex(tmp_path / "as a crash leaves it", memory)
    assert (again.log_offset, again.row_count, again.get_many([b"b"])) == (10, 2, [b"\1\0y"])
    again.close()
