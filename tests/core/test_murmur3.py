from __future__ import annotations

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.murmur3 import murmur3_32


@given(st.binary(max_size=64))
def test_murmur3_matches_another_library(data: bytes) -> None:
    assert murmur3_32(data) == mmh3.hash(data)
