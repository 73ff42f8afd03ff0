"""Fluss's server and Java client, downloaded once; the Java load program, compiled once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.cache import CACHE
from benchmarks.catalog.jars import fetched_jars, run_maven, supported_java

SERVER: Final = "0.9.1-incubating"
CLIENT: Final = "1.0.0"
"""The newest versions on Maven Central."""

_LOAD: Final = Path(__file__).parent / "load"


def server_jars() -> Path:
    """The folder of Fluss's server and its dependencies."""
    return _fetched("fluss-server", SERVER)


def client_jars() -> Path:
    """The folder of Fluss's Java client and its dependencies."""
    return _fetched("fluss-client", CLIENT)


def java() -> str:
    """A Java version that server and client support."""
    return str(supported_java())


def load_program() -> list[str]:
    """Return the command of the Java load program, without its arguments; compile it if its source has changed."""
    sources = sorted(_LOAD.glob("*.java"))
    folder = CACHE / f"bench-streams-load-{_stamp(*sources)}"
    jars = f"{client_jars()}/*"
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix=".bench-streams-load-", dir=CACHE) as made:
            compiler = shutil.which("javac") or str(supported_java().with_name("javac"))
            arguments = ["--release", "17", "-d", f"{made}/classes", "-cp", jars, *map(str, sources)]
            subprocess.run([compiler, *arguments], check=True)
            Path(made, "classes").rename(folder)
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java(), "-Xmx1g", opens, quiet, "-cp", f"{folder}:{jars}", "Load"]


def _fetched(part: str, version: str) -> Path:
    def fetch(maven: str, folder: Path, repository: Path) -> None:
        arguments = [f"-Dmaven.repo.local={repository}", f"-Dfluss.part={part}", f"-Dfluss.version={version}"]
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        run_maven(maven, folder, ["-f", str(_LOAD / "pom.xml"), *arguments, *goal])

    return fetched_jars(f"bench-{part}-{version}-{_stamp(_LOAD / 'pom.xml')}", fetch)


def _stamp(*files: Path) -> str:
    """A digest of the files, part of the name of what is built from them."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
