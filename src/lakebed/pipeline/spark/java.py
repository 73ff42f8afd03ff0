"""Which Java Spark is started with: one that it runs on, wherever the machine has it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lakebed.core.errors import PipelineUnavailable

from .versions import JAVA_PACKAGE, JAVA_VERSIONS

INSTALLED: Final = Path("/usr/lib/jvm")
"""Where Linux distributions put them, one folder each."""

_PATIENCE_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(environ: Mapping[str, str] | None = None, *, installed: Path = INSTALLED) -> Path:
    """The home of a Java that Spark runs on: of JAVA_HOME, of PATH, of those installed.

    Raises PipelineUnavailable that names what was found instead, and says what to do.
    """
    unfit: dict[Path, int] = {}
    for home in _homes(os.environ if environ is None else environ, installed):
        version = java_version(home)
        if version in JAVA_VERSIONS:
            return home
        if version is not None:
            unfit.setdefault(home, version)
    wanted = " or ".join(map(str, JAVA_VERSIONS))
    found = ", ".join(f"{version} in {home}" for home, version in unfit.items()) or "none"
    raise PipelineUnavailable(
        f"Spark needs Java {wanted}: install one (on Debian and Ubuntu: apt-get install {JAVA_PACKAGE}), or set"
        f" JAVA_HOME to where one is. found={found}"
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in a folder; None if there is none that runs."""
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said.stderr)
    return int(found[1]) if found else None


def _homes(environ: Mapping[str, str], installed: Path) -> Iterator[Path]:
    """Where to look, each place once; links to the same Java are one place."""
    stated = environ.get("JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    places = [
        *([Path(stated)] if stated else []),
        *([Path(on_path).resolve().parent.parent] if on_path else []),
        *sorted(installed.glob("*")),
    ]
    seen: set[Path] = set()
    for place in places:
        resolved = place.resolve()
        if resolved not in seen:
            seen.add(resolved)
            yield place
