"""A description of the machine that a benchmark ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, frozen=True):
    """The machine and its disk."""

    cpu: str
    cores: int
    memory_gib: float
    filesystem: str
    kernel: str
    python: str

    def describe(self) -> str:
        """Format as one line."""
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB memory, {self.filesystem} disk, "
            f"Linux {self.kernel}, Python {self.python}"
        )


def machine(folder: Path) -> Machine:
    """Describe this machine, with the filesystem of `folder`."""
    cpus = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    total = next(int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    return Machine(
        cpu=cpus[0] if cpus else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=total / 1024**2,
        filesystem=filesystem(folder),
        kernel=platform.release(),
        python=platform.python_version(),
    )


def filesystem(folder: Path) -> str:
    """Return the filesystem type of the longest mount point above `folder`."""
    found = (Path("/"), "unknown")
    for line in _lines("/proc/mounts"):
        _, point, kind, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(Path(point).parts) >= len(found[0].parts):
            found = (Path(point), kind)
    return found[1]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
