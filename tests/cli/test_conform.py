from __future__ import annotations

import sys
from types import ModuleType

import pytest

from lakebed.cli.main import FAILED

from .conftest import Lakebed


@pytest.fixture(autouse=True)
def _inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("lakebed.wire.s3.unsupported")
    rows = [("SelectObjectContent", "501 NotImplemented", "planned"), ("Torrent", "501", "[gone]")]
    vars(module)["inventory"] = lambda: rows
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_the_inventory_is_a_table(lakebed: Lakebed) -> None:
    outcome = lakebed("conform", "--print-unsupported-inventory")
    assert outcome.status == 0
    assert outcome.out == (
        "feature              answer              note\n"
        "SelectObjectContent  501 NotImplemented  planned\n"
        "Torrent              501                 [gone]\n"
    )


def test_the_inventory_is_json_for_programs(lakebed: Lakebed) -> None:
    assert lakebed("conform", "--print-unsupported-inventory", "--json").document == [
        {"feature": "SelectObjectContent", "answer": "501 NotImplemented", "note": "planned"},
        {"feature": "Torrent", "answer": "501", "note": "[gone]"},
    ]


def test_a_terminal_gets_the_same_words_drawn(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = lakebed("conform", "--print-unsupported-inventory").out
    assert "SelectObjectContent" in shown
    assert "[gone]" in shown


def test_what_to_print_has_to_be_said(lakebed: Lakebed) -> None:
    assert lakebed("conform").status == FAILED
