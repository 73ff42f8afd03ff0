"""Stores results: one JSON file for each section, and the sections of `RESULTS.md` generated from them.

Only a complete run rewrites a section, so that the page never mixes quick runs with real ones.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.machine import Machine
from benchmarks.table import Table

FOLDER: Final = Path(__file__).resolve().parent
PAGE: Final = FOLDER / "RESULTS.md"


class Circumstances(msgspec.Struct, frozen=True):
    """When and on what a section was measured."""

    measured_at: datetime
    machine: Machine
    servers: dict[str, str]
    """Versions by name."""
    durability: dict[str, str]
    """What an acknowledged write means, by server name."""
    written: str
    """The kind of write that `durability` is about."""
    load_average: float
    """Over the minute before the run: other work on the machine."""
    rounds: int
    seconds: float
    """The length of a round; 0 if a round is a fixed amount of work."""
    complete: bool

    def describe(self) -> str:
        """Format the lines above the table."""
        servers = ", ".join(f"{name} {version}" for name, version in self.servers.items())
        durability = "".join(f"- {name}: {meaning}\n" for name, meaning in self.durability.items())
        rounds = f"{self.rounds} round{'s' if self.rounds > 1 else ''}"
        length = f" of {self.seconds:g} s" if self.seconds else ""
        return (
            f"Measured {self.measured_at:%Y-%m-%d} on {self.machine.describe()}. {servers}. "
            f"{rounds}{length}; load average before: {self.load_average:.2f}.\n\n"
            f"On stable storage when {self.written} is answered:\n\n{durability}"
        )


def save(section: str, circumstances: Circumstances, result: object, table: Table) -> Path:
    """Write the JSON; a complete run also rewrites the section of the page. Sections have names like `s3-compare`."""
    folder = FOLDER / "results"
    folder.mkdir(exist_ok=True)
    path = folder / (f"{section}.json" if circumstances.complete else f"{section}-partial.json")
    encoded = msgspec.json.encode({"circumstances": circumstances, "result": result})
    path.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
    if circumstances.complete:
        text = f"{circumstances.describe()}\n{table.markdown()}"
        PAGE.write_text(replaced(PAGE.read_text(), section, text))
    return path


def replaced(page: str, section: str, text: str) -> str:
    """Return the page with the text between a section's two marks replaced."""
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise RuntimeError(f"no such section in RESULTS.md. section={section}")
    return pattern.sub(lambda _: f"{begin}\n{text}{end}", page, count=1)
