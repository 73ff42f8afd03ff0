from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.jobs import CopySpec, decode_copy, encode_copy

TEXTS = st.text(st.characters(codec="utf-8"))
ORDERS = st.builds(
    CopySpec,
    namespace=st.lists(TEXTS).map(tuple),
    table=TEXTS,
    snapshot=st.integers(0, 2**63 - 1),
    columns=st.lists(TEXTS).map(tuple),
    condition=TEXTS,
)


@given(ORDERS)
def test_task_spec_of_a_restricted_copy_round_trips(order: CopySpec) -> None:
    assert decode_copy(encode_copy(order)) == order


@pytest.mark.parametrize("text", ["", "x", "7b7d", "5b5d", b"{".hex()])
def test_invalid_task_spec_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_copy(text)
