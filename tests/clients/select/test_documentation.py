"""The example of docs/select.md, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.server import RunningServer

TEXT = (Path(__file__).parents[3] / "docs" / "select.md").read_text()


@pytest.mark.integration
def test_select_example_of_the_documentation_runs(
    s3: Any,  # Any: a boto3 client
    bucket: str,
    lakebed_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    example = example.replace("http://127.0.0.1:9000", lakebed_server.endpoint).replace('"data"', repr(bucket))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lakebed_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lakebed_server.secret_key)
    exec(f"{example}\ns3.close()", {})
    assert capsys.readouterr().out == "Ann\nCid\n"
