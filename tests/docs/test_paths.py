"""Paths in ARCHITECTURE.md and docs/invariants.md exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import REPOSITORY

_PATH = re.compile(r"`([\w/.]+(?:\.py|\.sql|/))`")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "docs/invariants.md"])
def test_named_paths_exist(document: str) -> None:
    named = set(_PATH.findall((REPOSITORY / document).read_text(encoding="utf-8")))
    roots = (REPOSITORY, REPOSITORY / "src/lakebed")
    missing = sorted(path for path in named if not any(Path(root, path).exists() for root in roots))
    assert named
    assert missing == []
