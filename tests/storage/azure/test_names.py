"""Blob names."""

from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidName
from lakebed.storage.azure.names import check_blob_name, is_listed_in_order


@pytest.mark.parametrize("name", ["a", ".hidden", "..two", "a/.b", "a.b/c.json", "%2e", "dots..inside"])
def test_usual_names_are_accepted(name: str) -> None:
    check_blob_name(name)


@pytest.mark.parametrize("name", ["a.", "a./b", "a/b..", "a...", "a\\b", "\\"])
def test_names_that_azure_may_alter_are_rejected(name: str) -> None:
    with pytest.raises(InvalidName):
        check_blob_name(name)


def test_names_without_late_characters_keep_the_order() -> None:
    assert is_listed_in_order("a/ü/日本", hierarchical=False)
    assert not is_listed_in_order("a/\ue000", hierarchical=False)
    assert not is_listed_in_order("a/😀", hierarchical=False)
    assert not is_listed_in_order("a", hierarchical=True)
