from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.spark import find_or_install_java

pytestmark = [pytest.mark.integration, pytest.mark.slow]

STEPS = (
    "start a server",
    "make a table bucket and stream tables",
    "make a versioned bucket",
    "fence",
    "upload 64 MiB in parts",
    "kill -9",
    "the streams are to be in the lake",
    "change rows by their keys",
    "encrypt at rest",
    "hand out keys for one prefix only",
    "make a table",
    "evolve the table",
    "let the server plan a scan",
    "leave a table to itself",
    "attach policies to its namespace",
    "Spark sees to it",
    "files arrive in a bucket",
    "Spark adds them to a table",
    "every change left its event",
)


def begin(folder: Path, *program: str, **more: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
    command = [sys.executable, *(program or ("-m", "lakebed")), "demo", "--folder", str(folder)]
    environment = {**kept, "COLUMNS": "200", "NO_COLOR": "1", **more}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def play(folder: Path, *program: str, **more: str) -> subprocess.CompletedProcess[str]:
    with begin(folder, *program, **more) as playing:
        told, complained = playing.communicate(timeout=600)
    return subprocess.CompletedProcess(playing.args, playing.returncode, told, complained)


WITHOUT_JAVA = """
import sys
from pathlib import Path
from lakebed.cli.main import main
from lakebed.pipeline.spark.java import find_java
find_java.__kwdefaults__["installed"] = Path("/nowhere")  # where this machine may have one
sys.exit(main(sys.argv[1:]))
"""


ENDED_WHILE_IT_STARTS_ITS_SERVER = """
import os, signal, subprocess, sys
from lakebed.cli.main import main

class Popen(subprocess.Popen):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        os.kill(os.getpid(), signal.SIGTERM)

subprocess.Popen = Popen
sys.exit(main(sys.argv[1:]))
"""


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


def test_the_demo_plays_its_steps_in_a_new_folder_and_leaves_nothing_running(tmp_path: Path) -> None:
    find_or_install_java()
    folder = tmp_path / "demo"
    # One that was used before is made anew.
    folder.mkdir()
    (folder / "data").write_text("of an earlier time")
    played = play(folder)
    assert played.returncode == 0, played.stdout + played.stderr
    titles = re.findall(r"^ (\d+)\. (.+) \(\d+\.\d\d s\)$", played.stdout, re.MULTILINE)
    assert [int(number) for number, _ in titles] == list(range(1, len(STEPS) + 1))
    assert all(title.startswith(step) for (_, title), step in zip(titles, STEPS, strict=True))
    told = played.stdout
    assert "1 won, 7 were refused with 412" in told
    assert "SHA-256 equal" in told
    assert "the last acknowledged one too: yes" in told
    has_keys = sys.version_info < (3, 13)  # of what pyfluss has packages for
    assert ("pyfluss is not installed here" in told) == (not has_keys)
    count = "105,000" if has_keys else "100,000"
    assert f"{count} records of streams are there, and they are all that were acknowledged" in told
    assert re.search(r"tier-stream clicks: 100,000 records are not in the lake, .*; freshness is 2 s; took \d", told)
    assert "PyIceberg reads 100,000 clicks: each once" in told
    if has_keys:
        assert "DuckDB reads 5,800 orders from the lake: the rows that the stream has now" in told
    assert re.search(r"read back: yes; 0 of \d+ files on disk hold its text", told)
    assert "outside: AccessDenied" in told
    assert "3 appends, 3,000 rows; the files were written with the key LKBT" in told
    assert "columns id, country, price; 2,000 rows now, 1,000 in the first snapshot" in told
    assert "id > 2000: 1 of 3 files are read" in told
    assert re.search(r"60 data files of .+, \d+ delete files \(DuckDB\), 61 snapshots", told)
    reasons = re.findall(
        r"^    ([a-z-]+): policy web\.[a-z-]+ v0, inherited from namespace web; .+$", told, re.MULTILINE
    )
    assert reasons == ["compact-table", "rewrite-manifests", "expire-snapshots", "remove-orphans"]
    assert re.search(r"^ +data files +60 +1$", told, re.MULTILINE)
    assert re.search(r"^ +delete files +\d+ +0$", told, re.MULTILINE)
    assert "arn:lakebed:sqs:us-east-1:orders:pipeline" in told
    assert re.search(r"3,000 rows of 12 events in \d+ commits?: each file once", told)
    assert re.search(r"lakebed:TaskSucceeded × ([6-9]|1\d)\b", told)
    assert "NO" not in told
    assert played.stderr == ""
    assert processes_on(folder) == []


@pytest.mark.heavy
def test_the_demo_goes_on_without_java_and_says_what_to_install(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    played = play(folder, "-c", WITHOUT_JAVA, PATH=str(tmp_path), JAVA_HOME="", LAKEBED_PIPELINE__EMBEDDED_WORKER="off")
    assert played.returncode == 0, played.stdout + played.stderr
    assert "left out: Spark needs Java 17 or 21: install one" in played.stdout
    assert "The files wait until a worker can add them." in played.stdout
    assert "The records wait until a worker can take them." in played.stdout
    assert f"lakebed:TaskPlanned × {7 if sys.version_info < (3, 13) else 6}" in played.stdout
    assert played.stderr == ""


def test_who_ends_the_demo_ends_its_server(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with begin(folder) as playing:
        deadline = time.monotonic() + 60
        # Its own line has the folder, too.
        while len(processes_on(folder)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert playing.poll() is None
        playing.terminate()
        assert playing.wait(60) == 128 + signal.SIGTERM
    assert processes_on(folder) == []


def test_who_ends_the_demo_while_it_starts_its_server_ends_that_too(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    played = play(folder, "-c", ENDED_WHILE_IT_STARTS_ITS_SERVER)
    assert played.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in played.stderr
    assert processes_on(folder) == []
