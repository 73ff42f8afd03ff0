from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lakebed.cli.main import FAILED
from tests.cli.conftest import Lakebed

SECRET = "not-to-be-printed"


@pytest.fixture(autouse=True)
def _keys(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", "AKEXAMPLE")
    monkeypatch.setenv("LAKEBED_SECRET_KEY", SECRET)
    monkeypatch.setenv("LAKEBED_TABLE_WAREHOUSE", "wh")


@pytest.mark.parametrize("form", ["properties", "submit", "python"])
def test_configuration_is_printed_without_secrets(lakebed: Lakebed, form: str) -> None:
    outcome = lakebed("spark-config", "--print", "--format", form)
    assert outcome.status == 0
    assert "http://127.0.0.1:9000/iceberg" in outcome.out
    assert SECRET not in outcome.out
    assert "AKEXAMPLE" not in outcome.out


def test_secrets_are_printed_with_show_secrets(lakebed: Lakebed) -> None:
    assert SECRET in lakebed("spark-config", "--print", "--show-secrets").out


def test_pipeline_settings_are_applied(lakebed: Lakebed) -> None:
    outcome = lakebed("spark-config", "--print", "--set", "pipeline.delegation=remote-signing")
    assert "remote-signing" in outcome.out


def test_file_has_mode_0600_and_replaces_no_file(lakebed: Lakebed, tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    assert lakebed("spark-config", "--output", str(file), "--show-secrets").status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SECRET in file.read_text()
    again = lakebed("spark-config", "--output", str(file))
    assert again.status == FAILED
    assert "cannot write the file" in again.err


def test_destination_is_required(lakebed: Lakebed) -> None:
    assert "one of the arguments --print --output is required" in lakebed("spark-config").err
