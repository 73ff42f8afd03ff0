"""The Java client of Apache Fluss on a running server: all that its administration can ask, and records."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.clients.people import make_user
from tests.clients.streams.serving import StreamServer
from tests.fixtures.compatibility_kit import find_or_install_compiler
from tests.fixtures.maven import find_or_install_maven

pytestmark = [pytest.mark.integration, pytest.mark.heavy]

VERSION: Final = "1.0.0"
_SOURCES: Final = Path(__file__).parent / "java"


def test_administration(streams: StreamServer, tmp_path: Path) -> None:
    other = make_user(streams.server)
    root = (streams.server.access_key, streams.server.secret_key)
    done = _run(
        "Administration", tmp_path, streams.address, *root, other.name, other.keys.access_key, other.keys.secret_key
    )
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


def test_records(streams: StreamServer, tmp_path: Path) -> None:
    done = _run("Records", tmp_path, streams.address, streams.server.access_key, streams.server.secret_key)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


def _run(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    java, class_path = find_or_install_compiler(), f"{folder}:{_find_or_download()}/*"
    javac = [str(java / "bin" / "javac"), "-d", str(folder), "-cp", class_path, str(_SOURCES / f"{program}.java")]
    subprocess.run(javac, check=True)
    # Arrow reads memory that the module system closes to it.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    command = [str(java / "bin" / "java"), *options, "-cp", class_path, program, *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )


def _find_or_download() -> Path:
    """The folder with the client; fetched if it is not there; a skip where it cannot be."""
    cache = Path(os.environ.get("LAKEBED_CACHE") or Path.home() / ".cache" / "lakebed")
    home = cache / f"fluss-client-{VERSION}"
    if home.exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".fluss-client.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes: one downloads, the others wait for it
        if not home.exists():
            maven = find_or_install_maven(f"needs the Java client of Fluss: install Maven, or put its jars at {home}")
            staging = cache / f".fluss-client-{VERSION}-staging"
            shutil.rmtree(staging, ignore_errors=True)
            (staging / "jars").mkdir(parents=True)
            # What Maven keeps for itself goes with the staging folder.
            words = [f"-Dmaven.repo.local={staging / 'maven'}", f"-Dclient.version={VERSION}"]
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={staging / 'jars'}"]
            command = [str(maven), "-q", "--batch-mode", "-f", str(_SOURCES / "pom.xml"), *words, *goal]
            subprocess.run(command, cwd=staging, check=True, stdin=subprocess.DEVNULL)
            (staging / "jars").rename(home)
            shutil.rmtree(staging)
    return home
