from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.model import Namespace, pack_properties, unpack_properties


@given(st.dictionaries(st.text(), st.text()))
def test_properties_round_trip(properties: dict[str, str]) -> None:
    assert unpack_properties(pack_properties(properties)) == properties
    assert Namespace(1, "a\x1fb", pack_properties(properties)).properties == properties


def test_namespace_knows_its_levels() -> None:
    assert Namespace(1, "a\x1fb", b"").levels == ("a", "b")
