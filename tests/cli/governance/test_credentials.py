from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.cli.main import FAILED
from lakebed.server.stores.identity import SECRETS_FILE
from tests.cli.conftest import Lakebed


def test_secret_is_printed_only_with_show(lakebed: Lakebed, data: Path) -> None:
    stored = json.loads((data / SECRETS_FILE).read_text())
    quiet = lakebed("credentials", "--data", str(data))
    assert stored["root_access_key"] in quiet.out
    assert str(data / SECRETS_FILE) in quiet.out
    assert stored["root_secret_key"] not in quiet.out + quiet.err
    shown = lakebed("credentials", "--data", str(data), "--show")
    assert stored["root_secret_key"] in shown.out
    assert stored["master_key"] not in shown.out


def test_credentials_are_printed_as_json(lakebed: Lakebed, data: Path) -> None:
    stored = json.loads((data / SECRETS_FILE).read_text())
    place = str(data / SECRETS_FILE)
    assert lakebed("credentials", "--data", str(data), "--json").document == {
        "access_key": stored["root_access_key"],
        "stored_in": place,
    }
    assert lakebed("credentials", "--data", str(data), "--json", "--show").document == {
        "access_key": stored["root_access_key"],
        "secret_key": stored["root_secret_key"],
        "stored_in": place,
    }


def test_credentials_from_settings_name_their_origin(
    lakebed: Lakebed, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_ROOT_ACCESS_KEY", "admin")
    monkeypatch.setenv("LAKEBED_ROOT_SECRET_KEY", "sesame-sesame")
    document = lakebed("credentials", "--data", str(data), "--json").document
    assert document == {"access_key": "admin", "stored_in": "LAKEBED_ROOT_SECRET_KEY"}


def test_credentials_command_creates_no_files(lakebed: Lakebed, tmp_path: Path) -> None:
    outcome = lakebed("credentials", "--data", str(tmp_path / "absent"))
    assert outcome.status == FAILED
    assert "or start a server: lakebed serve --data" in outcome.err
    assert not (tmp_path / "absent").exists()
