from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Lake

pytestmark = [pytest.mark.integration, pytest.mark.slow]

API = Path(__file__).parents[2] / "docs" / "api.md"


def test_documented_example_runs(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", API.read_text(), re.DOTALL)
    table = lake.table()
    example = example.replace("http://127.0.0.1:9000", lake.server.endpoint).replace('"lake"', repr(table.warehouse))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lake.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lake.server.secret_key)
    exec(example, {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "ns.t 0 0"
    assert any(line.endswith(f"TableCreated {table.warehouse}/ns/t") for line in printed)
