from __future__ import annotations

import pytest

from lakebed.client.names import TableRef, path
from lakebed.core.errors import InvalidName


def test_table_name_is_parsed() -> None:
    table = TableRef.parse("lake", "a.b.t")
    assert table == TableRef("lake", ("a", "b"), "t")
    assert (table.name, str(table)) == ("a.b.t", "lake.a.b.t")


@pytest.mark.parametrize(
    ("warehouse", "name"), [("", "ns.t"), ("lake", "t"), ("lake", ""), ("lake", "ns."), ("lake", ".t")]
)
def test_invalid_table_name_is_rejected(warehouse: str, name: str) -> None:
    with pytest.raises(InvalidName, match=r"NAMESPACE\.TABLE"):
        TableRef.parse(warehouse, name)


def test_namespace_levels_share_one_path_segment() -> None:
    assert path("lake", ("a", "b"), "t/x") == "/lake/a%1Fb/t%2Fx"
