"""Finds a Java version that Spark supports."""

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
"""Where Linux distributions install Java, one folder per version."""

_VERSION_TIMEOUT_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(environ: Mapping[str, str] | None = None, *, installed: Path = INSTALLED) -> Path:
    """The home of a supported Java: of JAVA_HOME, PATH, or the installed ones, in this order.

    Raises PipelineUnavailable, with the versions found instead.
    """
    unsupported: dict[Path, int] = {}
    for home in _homes(os.environ if environ is None else environ, installed):
        version = java_version(home)
        if version in JAVA_VERSIONS:
            return home
        if version is not None:
            unsupported.setdefault(home, version)
    expected = " or ".join(map(str, JAVA_VERSIONS))
    found = ", ".join(f"{version} in {home}" for home, version in unsupported.items()) or "none"
    raise PipelineUnavailable(
        f"Spark needs Java {expected}: install it (on Debian and Ubuntu: apt-get install {JAVA_PACKAGE}), or set"
        f" JAVA_HOME. found={found}"
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in a folder; None if it cannot be run."""
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(output.stderr)
    return int(found[1]) if found else None


def _homes(environ: Mapping[str, str], installed: Path) -> Iterator[Path]:
    """Candidate homes, each once; links to the same Java count as one."""
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
