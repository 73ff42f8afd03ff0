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
    "create a table bucket and stream tables",
    "create a versioned bucket",
    "conditional write",
    "upload 64 MiB in parts",
    "kill -9",
    "lake tiering",
    "update and delete rows",
    "encrypt at rest",
    "assume a role",
    "create a table: PyIceberg",
    "evolve the schema",
    "plan a scan on the server",
    "neglect a table",
    "attach maintenance policies",
    "run the tasks",
    "auto-ingest",
    "Spark adds the files to a table",
    "count the events",
)


def begin(folder: Path, *program: str, **more: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
    command = [sys.executable, *(program or ("-m", "lakebed")), "demo", "--folder", str(folder)]
    environment = {**kept, "COLUMNS": "200", "NO_COLOR": "1", **more}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def play(folder: Path, *program: str, **more: str) -> subprocess.CompletedProcess[str]:
    with begin(folder, *program, **more) as playing:
        output, complained = playing.communicate(timeout=600)
    return subprocess.CompletedProcess(playing.args, playing.returncode, output, complained)


WITHOUT_JAVA = """
import sys
from pathlib import Path
from lakebed.cli.main import main
from lakebed.pipeline.spark.java import find_java
find_java.__kwdefaults__["installed"] = Path("/nowhere")  # the machine may have one
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
    """Command lines of processes with the folder among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(str(folder)) for word in words):
            found.append(" ".join(words))
    return found


def test_demo_runs_all_steps_in_a_new_folder_and_leaves_no_process(tmp_path: Path) -> None:
    find_or_install_java()
    folder = tmp_path / "demo"
    # An existing folder is emptied.
    folder.mkdir()
    (folder / "data").write_text("of an earlier time")
    played = play(folder)
    assert played.returncode == 0, played.stdout + played.stderr
    titles = re.findall(r"^ (\d+)\. (.+) \(\d+\.\d\d s\)$", played.stdout, re.MULTILINE)
    assert [int(number) for number, _ in titles] == list(range(1, len(STEPS) + 1))
    assert all(title.startswith(step) for (_, title), step in zip(titles, STEPS, strict=True))
    output = played.stdout
    assert "1 succeeded, 7 got 412" in output
    assert "SHA-256 equal" in output
    assert "the last acknowledged one included: yes" in output
    has_pyfluss = sys.version_info < (3, 13)  # it has no package for later versions
    assert ("pyfluss is not installed here" in output) == (not has_pyfluss)
    count = "105,000" if has_pyfluss else "100,000"
    assert f"{count} stream records are present: all that were acknowledged" in output
    assert re.search(r"tier-stream clicks: 100,000 records are not in the lake, .*; freshness is 2 s; took \d", output)
    assert "PyIceberg reads 100,000 clicks: each once" in output
    if has_pyfluss:
        assert "DuckDB reads 5,800 orders from the lake: equal to the rows of the stream" in output
    assert re.search(r"read back: yes; 0 of \d+ files on disk hold its text", output)
    assert "outside: AccessDenied" in output
    assert "3 appends, 3,000 rows; written with the vended key LKBT" in output
    assert "columns id, country, price; 2,000 rows now, 1,000 in the first snapshot" in output
    assert "id > 2000: 1 of 3 files are read" in output
    assert re.search(r"60 data files of .+, \d+ delete files \(DuckDB\), 61 snapshots", output)
    reasons = re.findall(
        r"^    ([a-z-]+): policy web\.[a-z-]+ v0, inherited from namespace web; .+$", output, re.MULTILINE
    )
    assert reasons == ["compact-table", "rewrite-manifests", "expire-snapshots", "remove-orphans"]
    assert re.search(r"^ +data files +60 +1$", output, re.MULTILINE)
    assert re.search(r"^ +delete files +\d+ +0$", output, re.MULTILINE)
    assert "arn:lakebed:sqs:us-east-1:orders:pipeline" in output
    assert re.search(r"3,000 rows of 12 events in \d+ commits?: each file once", output)
    assert re.search(r"lakebed:TaskSucceeded × ([6-9]|1\d)\b", output)
    assert "NO" not in output
    assert played.stderr == ""
    assert processes_on(folder) == []


@pytest.mark.heavy
def test_demo_without_java_continues_with_install_advice(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    played = play(folder, "-c", WITHOUT_JAVA, PATH=str(tmp_path), JAVA_HOME="", LAKEBED_PIPELINE__EMBEDDED_WORKER="off")
    assert played.returncode == 0, played.stdout + played.stderr
    assert "skipped: Spark needs Java 17 or 21: install it" in played.stdout
    assert "The files wait for a worker with Spark." in played.stdout
    assert "The records wait for a worker with Spark." in played.stdout
    assert f"lakebed:TaskPlanned × {7 if sys.version_info < (3, 13) else 6}" in played.stdout
    assert played.stderr == ""


def test_interrupted_demo_stops_its_server(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with begin(folder) as playing:
        deadline = time.monotonic() + 60
        # Its own command line contains the folder, too.
        while len(processes_on(folder)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert playing.poll() is None
        playing.terminate()
        assert playing.wait(60) == 128 + signal.SIGTERM
    assert processes_on(folder) == []


def test_demo_interrupted_during_server_start_stops_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    played = play(folder, "-c", ENDED_WHILE_IT_STARTS_ITS_SERVER)
    assert played.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in played.stderr
    assert processes_on(folder) == []
