"""A policy with an unknown action, stored by an earlier release: the server warns of it and still enforces it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from lakebed.cli.main import main
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, start_server

from ..running_processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

OLD = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
            {"Effect": "Deny", "Action": "s3:DeletObject", "Resource": "*"},
        ],
    }
).encode()


def test_the_server_warns_of_unknown_actions_when_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    start_server(data).stop()
    monkeypatch.setenv("LAKEBED_ROOT_ACCESS_KEY", ROOT_ACCESS_KEY)
    monkeypatch.setenv("LAKEBED_ROOT_SECRET_KEY", ROOT_SECRET_KEY)
    assert main(["user", "create", "bob", "--data", str(data)]) == 0
    document = tmp_path / "policy.json"
    document.write_bytes(OLD)
    assert main(["policy", "put", "bob", "new", str(document), "--data", str(data)]) != 0
    assert 'did you mean "s3:DeleteObject"?' in capsys.readouterr().err
    with sqlite3.connect(data / "meta.db") as database:
        database.execute("INSERT INTO principal_policies VALUES ('bob', 'inline', 'old', ?)", (OLD,))
    database.close()
    server = start_server(data)
    try:
        wait_until(lambda: "s3:DeletObject" in server.log_text(), "a warning")
        warnings = [line for line in map(json.loads, server.log_text().splitlines()) if "s3:DeletObject" in str(line)]
        assert [(line["level"], line["principal"], line["policy"]) for line in warnings] == [("warning", "bob", "old")]
    finally:
        server.stop()
