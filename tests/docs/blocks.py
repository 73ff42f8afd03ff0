"""Parses code blocks of documents: commands, programs, and blocks marked as not run.

Conventions (CONTRIBUTING.md, "A documented command"): a block that is fenced as `sh` or `python`, or that has lines
beginning with `$ `, is run. A comment `<!-- not run: REASON -->` on the line before the fence says why one is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
DOCUMENTS: Final = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))

_FENCE: Final = re.compile(r"^\s*```(.*)$")
_NOT_RUN: Final = re.compile(r"^\s*<!-- not run: (\S.*?) -->\s*$")
_OTHER_SHELLS: Final = ("bash", "console", "shell", "zsh")
_COMMAND: Final = re.compile(
    r"^(\$ |\.venv/|(aws|curl|docker|export|lakebed|mc|pip|polaris|python|spark-submit|make)\s(?!\s))"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    document: Path
    line: int
    language: str
    text: str
    reason: str | None
    """The reason of a `not run` marker."""

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(REPOSITORY)}:{self.line}"

    @property
    def is_runnable(self) -> bool:
        """Whether it is a program or shell commands."""
        return self.language in ("python", "sh") or (not self.language and bool(self.commands))

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block; of a console with output, the lines after `$ `."""
        joined = self.text.replace("\\\n", " ")
        lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
        if any(line.startswith("$ ") for line in lines):
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return lines if self.language == "sh" else []

    @property
    def looks_like_commands(self) -> bool:
        """Whether it looks like a command, or is fenced as a shell other than `sh`."""
        return self.language in _OTHER_SHELLS or (not self.language and bool(_COMMAND.match(self.text)))


def read_blocks(document: Path) -> list[Block]:
    """The blocks of a document, in order."""
    lines = document.read_text(encoding="utf-8").splitlines()
    blocks, number = [], 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = next(n for n in range(number + 1, len(lines)) if _FENCE.match(lines[n]))
        marker = _NOT_RUN.match(lines[number - 1]) if number else None
        text = "\n".join(lines[number + 1 : end])
        blocks.append(Block(document, number + 1, opening[1].strip(), text, marker[1] if marker else None))
        number = end + 1
    return blocks
