from __future__ import annotations

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.murmur3 import murmur3_32


@given(st.binary(max_size=64))
def test_it_is_the_hash_that_another_library_makes(data: bytes) -> None:
    assert murmur3_32(data) == mmh3.hash(data)
