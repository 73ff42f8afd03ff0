"""What is measured with and against: Fluss's server and its Java client, fetched once; the load program, compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.catalog.jars import found_or_fetched, old_java, run_maven

SERVER: Final = "0.9.1-incubating"
CLIENT: Final = "1.0.0"
"""The newest of each that Maven Central has."""

_LOAD: Final = Path(__file__).parent / "load"


def server_jars() -> Path:
    """The folder with Fluss's server and all it needs."""
    return _fetched("fluss-server", SERVER)


def client_jars() -> Path:
    """The folder with Fluss's Java client."""
    return _fetched("fluss-client", CLIENT)


def java() -> str:
    """A Java that both run on."""
    return str(old_java())


def load_program(folder: Path) -> list[str]:
    """The command that runs the Java load, compiled into `folder`."""
    classes = f"{folder}:{client_jars()}/*"
    compiler = shutil.which("javac") or str(old_java().with_name("javac"))
    subprocess.run([compiler, "-d", str(folder), "-cp", classes, str(_LOAD / "Keys.java")], check=True)
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java(), "-Xmx1g", opens, quiet, "-cp", classes, "Keys"]


def _fetched(part: str, version: str) -> Path:
    def fetch(maven: str, folder: Path, repository: Path) -> None:
        words = [f"-Dmaven.repo.local={repository}", f"-Dfluss.part={part}", f"-Dfluss.version={version}"]
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        run_maven(maven, folder, ["-f", str(_LOAD / "pom.xml"), *words, *goal])

    return found_or_fetched(f"bench-{part}-{version}", fetch)
