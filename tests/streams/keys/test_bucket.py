from __future__ import annotations

import pytest

from lakebed.streams.keys.index import MemoryIndex
from tests.contracts.bucket_keys import BucketKeysContract, OpenIndex


class TestKeysInMemory(BucketKeysContract):
    @pytest.fixture
    def open_index(self) -> OpenIndex:
        """A new one each time: all is replayed."""
        return MemoryIndex
