"""Responses of several handlers."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lakebed.wire.json.responses import identifiers

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class TestIdentifiers:
    @given(st.lists(names, min_size=1, max_size=3), st.lists(names, max_size=10))
    def test_every_name_has_its_namespace(self, namespace: list[str], found: list[str]) -> None:
        written = bytes(identifiers(tuple(namespace), found))
        assert json.loads(written) == [{"namespace": namespace, "name": name} for name in found]
