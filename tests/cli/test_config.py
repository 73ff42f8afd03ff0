from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lakebed.cli.main import FAILED

from .conftest import Lakebed


def test_printed_settings_name_their_origin(lakebed: Lakebed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakebed.toml").write_text('[server]\nregion = "eu-1"\nworkers = 1\n')
    monkeypatch.setenv("LAKEBED_SERVER__WORKERS", "2")
    outcome = lakebed(
        "config",
        "--print",
        "--config",
        "lakebed.toml",
        "--listen",
        "0.0.0.0:9000",
        "--insecure-http",
        "--set",
        "log.level=debug",
    )
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert 'region = "eu-1"  # lakebed.toml' in lines
    assert "workers = 2  # LAKEBED_SERVER__WORKERS" in lines
    assert 'listen = "0.0.0.0:9000"  # --listen' in lines
    assert "insecure_http = true  # --insecure-http" in lines
    assert 'level = "debug"  # --set log.level' in lines
    assert 'data = "lakebed-data"  # default' in lines


def test_printed_settings_hide_secrets(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_ROOT_ACCESS_KEY", "admin")
    monkeypatch.setenv("LAKEBED_ROOT_SECRET_KEY", "sesame-sesame")
    outcome = lakebed("config", "--print")
    assert "sesame" not in outcome.out
    assert 'secret_key = "***"  # LAKEBED_ROOT_SECRET_KEY' in outcome.out.splitlines()


def test_defaults_are_printed_despite_invalid_settings(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_SERVER__WORKERS", "many")
    outcome = lakebed("config", "--defaults")
    assert outcome.status == 0
    assert tomllib.loads(outcome.out)["server"]["listen"] == "127.0.0.1:9000"


def test_settings_can_be_checked_without_printing(lakebed: Lakebed) -> None:
    assert lakebed("config").out == "the settings are valid; --print shows them\n"


def test_invalid_setting_is_one_line_with_advice(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_SERVER__LISEN", "127.0.0.1:1")
    outcome = lakebed("config", "--print")
    assert outcome.status == FAILED
    assert outcome.out == ""
    assert outcome.err == (
        "lakebed: server.lisen: no such setting. given_by=LAKEBED_SERVER__LISEN nearest=LAKEBED_SERVER__LISTEN. "
        "List all settings: lakebed config --defaults\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "absent.toml"), "--config: cannot read the file. path=absent.toml reason=No such file"),
        (("--config", "latin.toml"), "--config: not UTF-8 text. path=latin.toml"),
        (("--set", "log.level"), "--set: expected PATH=VALUE. found='log.level'"),
        (("--set", "log.levle=debug"), "log.levle: no such setting. given_by=--set log.levle nearest=log.level"),
        (
            ("--workers", "0"),
            "server.workers: expected a whole number of at least 1, found text '0'. given_by=--workers",
        ),
    ],
)
def test_invalid_flags_are_rejected(lakebed: Lakebed, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "latin.toml").write_bytes(b'[server]\nregion = "\xe9"\n')
    outcome = lakebed("config", *words)
    assert outcome.status == FAILED
    assert outcome.err.startswith(f"lakebed: {message}")


def test_secret_on_the_command_line_is_rejected_and_not_quoted(lakebed: Lakebed) -> None:
    outcome = lakebed("config", "--set", "root.secret_key=sesame-sesame")
    assert outcome.status == FAILED
    assert "use LAKEBED_ROOT__SECRET_KEY or the file" in outcome.err
    assert "sesame" not in outcome.err
