"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, frozen=True):
    """The machine and the disk."""

    cpu: str
    cores: int
    memory_gib: float
    filesystem: str
    kernel: str
    python: str

    def describe(self) -> str:
        """One line."""
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB memory, {self.filesystem} disk, "
            f"Linux {self.kernel}, Python {self.python}"
        )


def machine(folder: Path) -> Machine:
    """This machine, with the filesystem that `folder` is on."""
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
    """The type of the filesystem under `folder`: that of the longest mount point that leads to it."""
    found = (Path("/"), "unknown")
    for line in _lines("/proc/mounts"):
        _, point, kind, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(Path(point).parts) >= len(found[0].parts):
            found = (Path(point), kind)
    return found[1]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
