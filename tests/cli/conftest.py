from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakebed.cli import main
from lakebed.core.settings import ServerSettings, Settings
from lakebed.server.stores.identity import establish_identity


@dataclass(frozen=True, slots=True)
class Outcome:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # Any: JSON
        return json.loads(self.out)


Lakebed = Callable[..., Outcome]


@pytest.fixture
def lakebed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lakebed:
    """Runs a command in this process, in an empty folder and without LAKEBED_ variables."""
    for name in [name for name in os.environ if name.startswith("LAKEBED_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Outcome:
        status = main(words)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a server that was started before."""
    folder = tmp_path / "data"
    establish_identity(Settings(server=ServerSettings(data=folder)))
    return folder
