from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.streams.keys.index import MemoryIndex
from lakebed.streams.keys.rocks import RocksIndex, RocksMemory
from tests.contracts.bucket_keys import BucketKeysContract, OpenIndex


class TestKeysInMemory(BucketKeysContract):
    @pytest.fixture
    def open_index(self) -> OpenIndex:
        """A new one each time: all is replayed."""
        return MemoryIndex


class TestKeysInRocksDb(BucketKeysContract):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        memory = RocksMemory(8 << 20, 8 << 20)
        return lambda: RocksIndex(tmp_path / "index", memory)
