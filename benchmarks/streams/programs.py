"""What is measured with and against: Fluss's server and its Java client, fetched once; the load program, compiled."""

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
    return str(supported_java())


def load_program() -> list[str]:
    """The command that runs the Java load; what it is to do comes behind. Compiled once for what its source is now."""
    sources = sorted(_LOAD.glob("*.java"))
    folder = CACHE / f"bench-streams-load-{_stamp(*sources)}"
    jars = f"{client_jars()}/*"
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix=".bench-streams-load-", dir=CACHE) as made:
            compiler = shutil.which("javac") or str(supported_java().with_name("javac"))
            words = ["--release", "17", "-d", f"{made}/classes", "-cp", jars, *map(str, sources)]
            subprocess.run([compiler, *words], check=True)
            Path(made, "classes").rename(folder)
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java(), "-Xmx1g", opens, quiet, "-cp", f"{folder}:{jars}", "Load"]


def _fetched(part: str, version: str) -> Path:
    def fetch(maven: str, folder: Path, repository: Path) -> None:
        words = [f"-Dmaven.repo.local={repository}", f"-Dfluss.part={part}", f"-Dfluss.version={version}"]
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        run_maven(maven, folder, ["-f", str(_LOAD / "pom.xml"), *words, *goal])

    return fetched_jars(f"bench-{part}-{version}-{_stamp(_LOAD / 'pom.xml')}", fetch)


def _stamp(*files: Path) -> str:
    """Another for other files: what was made of them is then made anew."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
