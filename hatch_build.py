"""Builds the package's C files if there is a compiler; the package works without them (ADR 11, ADR 26, ADR 36)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Final, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Library(NamedTuple):
    """One C file and its library."""

    source: str
    built: str
    without: str
    """What a server does without the library."""


MD5_LANES: Final = Library(
    "src/lakebed/objects/blobs/md5_lanes.c",
    "src/lakebed/objects/blobs/_md5_lanes.so",
    "bodies will be hashed one at a time, by hashlib",
)
JSON_LINES: Final = Library(
    "src/lakebed/select/formats/json_lines.c",
    "src/lakebed/select/formats/_json_lines.so",
    "lines of JSON will be read value by value, by msgspec",
)
KV_RECORDS: Final = Library(
    "src/lakebed/fluss/kv_records.c",
    "src/lakebed/fluss/_kv_records.so",
    "KV records will be read one by one",
)
LIBRARIES: Final = (MD5_LANES, JSON_LINES, KV_RECORDS)

FLAGS: Final = ("-O2", "-fPIC", "-shared", "-pthread", "-fno-tree-reassoc")
"""-fno-tree-reassoc: the order of additions in the source has the shortest dependency chain."""


def find_compiler() -> list[str] | None:
    """The C compiler: the environment variable CC, or the usual names."""
    named = os.environ.get("CC")
    if named is not None:
        return shlex.split(named) or None
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return None if found is None else [found]


def compile_library(compiler: list[str], source: Path, library: Path) -> str | None:
    """Compile the library; the error, or None."""
    unfinished = library.with_suffix(f".{os.getpid()}")
    command = [*compiler, *FLAGS, "-o", str(unfinished), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    if done.returncode != 0:
        unfinished.unlink(missing_ok=True)
        return done.stderr
    # Atomic: a process that has loaded the old library keeps it.
    unfinished.replace(library)
    return None


class CBuildHook(BuildHookInterface[Any]):  # Any: no configuration class
    """Adds the libraries to a wheel, or to the folders that an editable installation uses."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # Any: the interface's own
        """Build the libraries; without a compiler, warn and continue."""
        if self.target_name != "wheel":
            return
        compiler = find_compiler()
        for library in LIBRARIES:
            source, built = Path(self.root, library.source), Path(self.root, library.built)
            failure = "no C compiler" if compiler is None else compile_library(compiler, source, built)
            if failure is not None:
                built.unlink(missing_ok=True)
                self.app.display_warning(f"{library.without}: {failure}")
                continue
            build_data["artifacts"].append(f"/{library.built}")
            # Platform-specific, but for every Python: the libraries do not use its C API.
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
