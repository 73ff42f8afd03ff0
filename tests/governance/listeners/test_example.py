"""The examples of the documentation run as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lakebed.core.operations import Operation
from lakebed.core.webhooks import new_secret, signed_headers
from lakebed.governance.listeners import load_listener
from tests.client.test_webhooks import BODY

from .intents import an_intent

EXAMPLES = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[3] / "docs" / "events.md").read_text(), re.DOTALL)


async def test_documented_listener_vetoes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "documented_listener.py").write_text(EXAMPLES[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    listener = load_listener("documented_listener:Freeze")
    assert Operation.DROP_VIEW in listener.operations
    assert Operation.CREATE_TABLE not in listener.operations
    assert await listener.before(an_intent(name="ledger")) == "the books of 2025 are closed"
    assert await listener.before(an_intent()) is None


def test_documented_receiver_deduplicates_messages(capsys: pytest.CaptureFixture[str]) -> None:
    import time

    secret = new_secret()
    names: dict[str, Any] = {}
    exec(EXAMPLES[-1].replace("whsec_…", secret.reveal()), names)
    headers = signed_headers(secret, "evt_7", time.time_ns() // 1_000_000, BODY)
    for _ in range(2):
        names["receive"](headers, BODY)
    assert capsys.readouterr().out == "TableCommitted lake/ns/t\n"
