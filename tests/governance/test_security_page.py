"""The tests that docs/security.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def test_page_names_tests() -> None:
    assert len(NAMED) > 40


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_named_test_exists(file: str, test: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"^ *(async )?def {test}\(" if test else "def test_", text, re.MULTILINE)


def test_every_known_cve_has_a_test() -> None:
    for number in ("42809", "42810", "42811", "42812"):
        assert f"::test_cve_2026_{number}_" in PAGE
