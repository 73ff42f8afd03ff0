"""Where results are kept: one JSON file a section, and the sections of `RESULTS.md` made from them.

A section is rewritten only by a complete run of its part, so that the page never mixes quick numbers with real ones.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.s3.machine import Machine
from benchmarks.s3.tables import Table

FOLDER: Final = Path(__file__).resolve().parents[1]
PAGE: Final = FOLDER / "RESULTS.md"


class Circumstances(msgspec.Struct, frozen=True):
    """When and on what a section was measured."""

    measured_at: datetime
    machine: Machine
    servers: dict[str, str]
    """Versions by name."""
    durability: dict[str, str]
    """What an acknowledged PUT means, by name."""
    load_average: float
    """Of the minute before: what else the machine was doing."""
    rounds: int
    seconds: float
    complete: bool

    def describe(self) -> str:
        """Lines that stand above the table."""
        servers = ", ".join(f"{name} {version}" for name, version in self.servers.items())
        durability = "".join(f"- {name}: {meaning}\n" for name, meaning in self.durability.items())
        return (
            f"Measured {self.measured_at:%Y-%m-%d} on {self.machine.describe()}. {servers}. "
            f"{self.rounds} rounds of {self.seconds:g} s; load average before: {self.load_average:.2f}.\n\n"
            f"On stable storage when a PUT is answered:\n\n{durability}"
        )


def keep(section: str, circumstances: Circumstances, result: object, table: Table) -> Path:
    """Write the JSON; a complete run also renews the section of the page."""
    folder = FOLDER / "results"
    folder.mkdir(exist_ok=True)
    path = folder / (f"s3-{section}.json" if circumstances.complete else f"s3-{section}-partial.json")
    encoded = msgspec.json.encode({"circumstances": circumstances, "result": result})
    path.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
    if circumstances.complete:
        text = f"{circumstances.describe()}\n{table.markdown()}"
        PAGE.write_text(replaced(PAGE.read_text(), f"s3-{section}", text))
    return path


def replaced(page: str, section: str, text: str) -> str:
    """The page with the text between a section's two marks replaced."""
    begin, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(page):
        raise RuntimeError(f"the page has no such section. section={section}")
    return pattern.sub(lambda _: f"{begin}\n{text}{end}", page, count=1)
