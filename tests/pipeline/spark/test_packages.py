"""Packages are fetched by one process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.pipeline.spark.packages import fetching_alone

TRY = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("taken")
    else:
        print("free")
"""


def test_another_process_waits_for_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def found() -> str:
        (path,) = tmp_path.iterdir()
        program = [sys.executable, "-c", TRY, str(path)]
        return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()

    with fetching_alone():
        assert found() == "taken"
    assert found() == "free"


def test_what_fails_in_the_block_lets_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.raises(RuntimeError), fetching_alone():
        raise RuntimeError
    with fetching_alone():
        pass
