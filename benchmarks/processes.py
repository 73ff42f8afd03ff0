"""Processor time and memory of a server's processes, from /proc."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """Return the process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, frontier = [], [root]
    while frontier:
        pid = frontier.pop()
        found.append(pid)
        frontier.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Return user and system time of the family, including children that have ended."""
    ticks = 0
    for pid in family(root):
        if fields := _stat(pid):
            ticks += sum(int(fields[i]) for i in (11, 12, 13, 14))
    return ticks * TICK_SECONDS


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command name: state, parent's id and so on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of one process; `anonymous` excludes mapped files, which the kernel can reclaim."""

    resident: int
    anonymous: int


def memory(pid: int) -> Memory | None:
    """Return the resident memory now, or None if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    values = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon"):
            values[name] = int(value.split()[0]) * 1024
    return Memory(values["VmRSS"], values["RssAnon"]) if len(values) == 2 else None


@dataclass(frozen=True, slots=True)
class Reading:
    """The largest process of the family at one time, and the sum of the family."""

    seconds: float
    largest: Memory
    total_resident: int


@dataclass(slots=True)
class MemoryWatch:
    """Samples the family's memory in a thread during a `with` block."""

    root: int
    every_seconds: float = 0.1
    readings: list[Reading] = field(default_factory=list)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> MemoryWatch:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        begin = time.monotonic()
        while True:
            found = [now for pid in family(self.root) if (now := memory(pid)) is not None]
            if found:
                largest = max(found, key=lambda each: each.resident)
                total = sum(each.resident for each in found)
                self.readings.append(Reading(time.monotonic() - begin, largest, total))
            if self._done.wait(self.every_seconds):
                return

    def highest(self) -> Memory:
        """Return the highest memory of one process at any time."""
        return Memory(
            max(each.largest.resident for each in self.readings),
            max(each.largest.anonymous for each in self.readings),
        )
