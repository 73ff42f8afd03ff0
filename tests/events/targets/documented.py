"""Runs SQL statements of `docs/targets.md` unchanged."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "targets.md"


def documented_change(database: str, table: str) -> str:
    """The documented migration of a table of an earlier version."""
    found = re.search(rf"^-- {database}\b.*\n((?:.+\n)+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].replace("```\n", "").replace("lakebed_events", table)
