from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]

STEPS = (
    "start a server",
    "make a versioned bucket",
    "fence",
    "upload 64 MiB in parts",
    "kill -9",
    "encrypt at rest",
    "hand out keys for one prefix only",
    "make a table",
    "evolve the table",
    "let the server plan a scan",
    "every change left its event",
)


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
    command = [sys.executable, "-m", "lakebed", "demo", "--folder", str(folder)]
    environment = {**kept, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def processes_on(folder: Path) -> list[str]:
    """Command lines of processes that were given the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(str(folder)) for word in words):
            found.append(" ".join(words))
    return found


def test_the_demo_plays_its_steps_twice_over_and_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for _ in range(2):  # a folder that was used before is made anew
        played = play(folder)
        assert played.returncode == 0, played.stdout + played.stderr
        titles = re.findall(r"^ (\d+)\. (.+) \(\d+\.\d\d s\)$", played.stdout, re.MULTILINE)
        assert [int(number) for number, _ in titles] == list(range(1, len(STEPS) + 1))
        assert all(title.startswith(step) for (_, title), step in zip(titles, STEPS, strict=True))
        told = played.stdout
        assert "1 won, 7 were refused with 412" in told
        assert "SHA-256 equal" in told
        assert "the last acknowledged one too: yes" in told
        assert re.search(r"read back: yes; 0 of \d+ files on disk hold its text", told)
        assert "outside: AccessDenied" in told
        assert "3 appends, 3,000 rows; the files were written with the key LKBT" in told
        assert "columns id, country, price; 2,001 rows now, 1,000 in the first snapshot" in told
        assert "id > 2000: 0 of 3 files are read" in told
        assert "NO" not in told
        assert played.stderr == ""
        assert processes_on(folder) == []
