"""The Prometheus text exposition format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample. The suffix follows the metric's name; a label value is text, or a bucket bound."""

    suffix: str
    labels: tuple[tuple[str, str | float], ...]
    value: float


@dataclass(frozen=True, slots=True)
class Block:
    """A metric family: name, type, help text and samples."""

    name: str
    kind: str
    text: str
    samples: tuple[Sample, ...]


def expose(blocks: Iterable[Block]) -> bytes:
    """The response body of a scrape."""
    lines: list[str] = []
    for block in blocks:
        lines.append(f"# HELP {block.name} {_escape(block.text)}")
        lines.append(f"# TYPE {block.name} {block.kind}")
        for sample in block.samples:
            pairs = ",".join(f'{name}="{_label(value)}"' for name, value in sample.labels)
            braced = f"{{{pairs}}}" if pairs else ""
            lines.append(f"{block.name}{sample.suffix}{braced} {_number(sample.value)}")
    return ("\n".join(lines) + "\n").encode(errors="backslashreplace")


def _label(value: str | float) -> str:
    return _escape(value).replace('"', '\\"') if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    if value.is_integer():
        return str(int(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(repr(value)) or repr(value)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
