"""docs/select.md matches the implementation."""

from __future__ import annotations

import re
from pathlib import Path

from lakebed.core.settings import Settings, known_settings
from lakebed.select.errors import SelectCode
from lakebed.wire.s3.select.messages import MAX_MESSAGE_BYTES

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "select.md").read_text()
NEVER_RAISED = {SelectCode.METHOD_NOT_ALLOWED, SelectCode.UNAUTHORIZED_ACCESS}
"""Codes that appear only in the table of statuses."""


def test_documented_error_codes_are_those_of_the_implementation() -> None:
    raised = set()
    for folder in ("select", "wire/s3"):
        for file in (ROOT / "src" / "lakebed" / folder).rglob("*.py"):
            raised |= {SelectCode[name] for name in re.findall(r"SelectCode\.([A-Z0-9_]+)", file.read_text())}
    documented = set(re.findall(r"`([A-Z][A-Za-z0-9]+)`", TEXT)) & set(SelectCode)
    assert documented == (raised | {SelectCode.MALFORMED_XML}) - NEVER_RAISED


def test_documented_settings_and_defaults_match() -> None:
    rows = dict(re.findall(r"^\| `(select\.[a-z]+)` \| `([^`]*)` \|", TEXT, re.MULTILINE))
    assert rows.keys() == {path for path in known_settings() if path.startswith("select.")}
    for path, default in rows.items():
        value = getattr(Settings().select, path.partition(".")[2])
        assert known_settings()[path].show(value).strip('"') == default


def test_documented_message_limit_matches() -> None:
    assert f"{MAX_MESSAGE_BYTES:,} bytes" in TEXT
