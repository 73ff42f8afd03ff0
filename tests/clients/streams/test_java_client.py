"""The Java client of Apache Fluss on a running server: all that its administration can ask, and records."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.clients.people import make_user
from tests.clients.streams.serving import StreamServer
from tests.fixtures.compatibility_kit import find_or_install_compiler
from tests.fixtures.maven import fetched_jars

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
    jars = fetched_jars(
        f"fluss-client-{VERSION}", "the Java client of Fluss", _SOURCES / "pom.xml", f"-Dclient.version={VERSION}"
    )
    java, class_path = find_or_install_compiler(), f"{folder}:{jars}/*"
    javac = [str(java / "bin" / "javac"), "-d", str(folder), "-cp", class_path, str(_SOURCES / f"{program}.java")]
    subprocess.run(javac, check=True)
    # Arrow reads memory that the module system closes to it.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    command = [str(java / "bin" / "java"), *options, "-cp", class_path, program, *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
