"""The options in `config` of system policies, and their parsing.

Names are those of the job options, and of published examples of these policies. Clients send most values as strings,
because some stores support nothing else, so strings that contain a value are accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from lakebed.core.errors import InvalidInput
from lakebed.core.sizes import parse_seconds

from .json_documents import Json

OptionValue: TypeAlias = str | int | float | bool | tuple[str, ...]
"""A parsed option value."""

_LARGEST: Final = 2**63 - 1
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?")


@dataclass(frozen=True, slots=True)
class ValueParser:
    """Parses a value."""

    expected: str
    """A description of valid values, such as `a whole number from 1`."""
    read: Callable[[Json], OptionValue | None]
    """Returns the value; None if it is invalid."""


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """An option under one of its names."""

    canonical_name: str
    """The option that it sets. Two names of the same option must not be used together."""
    parser: ValueParser


def whole(least: int = 0) -> ValueParser:
    """A whole number."""

    def read(value: Json) -> int | None:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if least <= value <= _LARGEST else None

    return ValueParser(f"a whole number from {least}", read)


def number(least: float = 0.0, most: float = math.inf) -> ValueParser:
    """A number with an optional fraction."""
    bounds = f"from {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
    return ValueParser(f"a number {bounds}", lambda value: _number(value, least, most))


def _number(value: Json, least: float, most: float) -> float | None:
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if least <= value <= min(most, _LARGEST) else None


def choice(*words: str) -> ValueParser:
    """One of several words, ignoring case and dashes."""
    plain = {_normalized(word): word for word in words}

    def read(value: Json) -> str | None:
        return plain.get(_normalized(value)) if isinstance(value, str) else None

    return ValueParser(f"one of {', '.join(words)}", read)


def _normalized(word: str) -> str:
    return word.strip().lower().replace("-", "").replace("_", "")


def _flag(value: Json) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _names(value: Json) -> tuple[str, ...] | None:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) and part.strip() for part in parts):
        return None
    return tuple(part.strip() for part in parts) or None


def _duration(value: Json) -> float | None:
    if isinstance(value, str):
        try:
            return parse_seconds(value)
        except InvalidInput:
            return None
    return _number(value, 0, math.inf)


FLAG: Final = ValueParser("true or false", _flag)
TEXT: Final = ValueParser("a non-empty string", _text)
NAMES: Final = ValueParser("a list of strings, or one string separated by commas", _names)
DURATION: Final = ValueParser("a number of seconds, or a string such as 24h", _duration)

BINPACK: Final = "binpack"
SORT: Final = "sort"
ZORDER: Final = "zorder"


def _named(**parsers: ValueParser) -> dict[str, ConfigOption]:
    """Options with a single name."""
    dashed = {name.replace("_", "-"): parser for name, parser in parsers.items()}
    return {name: ConfigOption(name, parser) for name, parser in dashed.items()}


def _alias(canonical_name: str, **parsers: ValueParser) -> dict[str, ConfigOption]:
    """Further names of an option."""
    return {name: ConfigOption(canonical_name, parser) for name, parser in parsers.items()}


_INTERVAL: Final = _named(interval=DURATION)
"""Minimum time between two runs of the job on a table."""

DATA_COMPACTION: Final[Mapping[str, ConfigOption]] = {
    **_named(
        strategy=choice(BINPACK, SORT, ZORDER),
        sort_order=TEXT,
        zorder_columns=NAMES,
        target_file_size_bytes=whole(1),
        min_file_size_bytes=whole(0),
        max_file_size_bytes=whole(1),
        min_input_files=whole(1),
        max_file_group_size_bytes=whole(1),
        max_concurrent_file_group_rewrites=whole(1),
        delete_file_threshold=whole(1),
        delete_ratio_threshold=number(0, 1),
        rewrite_deletes=FLAG,
        partial_progress=FLAG,
        partial_progress_max_commits=whole(1),
        where=TEXT,
        statistics=FLAG,
        statistics_columns=NAMES,
        layout=FLAG,
    ),
    **_INTERVAL,
    **_alias("target-file-size-bytes", target_file_size_bytes=whole(1)),
    **_alias("strategy", compaction_strategy=choice(BINPACK, SORT, ZORDER)),
}

METADATA_COMPACTION: Final[Mapping[str, ConfigOption]] = {
    **_named(spec_id=whole(0), target_manifest_size_bytes=whole(1)),
    **_INTERVAL,
    **_alias("spec-id", spec_id=whole(0)),
}

SNAPSHOT_EXPIRY: Final[Mapping[str, ConfigOption]] = {
    **_named(min_snapshots_to_keep=whole(1), max_snapshot_age_ms=whole(0), max_ref_age_ms=whole(0)),
    **_INTERVAL,
    "retain-last": ConfigOption("min-snapshots-to-keep", whole(1)),
    **_alias("min-snapshots-to-keep", min_snapshot_to_keep=whole(1)),
    **_alias("max-snapshot-age-ms", max_snapshot_age_days=number()),
    **_alias("max-ref-age-ms", max_ref_age_days=number()),
}

ORPHAN_FILE_REMOVAL: Final[Mapping[str, ConfigOption]] = {
    **_named(
        older_than_ms=whole(0),
        allow_young=FLAG,
        locations=NAMES,
        prefix_mismatch_mode=choice("error", "ignore", "delete"),
        max_delete=whole(1),
    ),
    **_INTERVAL,
    **_alias("prefix-mismatch-mode", prefix_mismatch_mode=choice("error", "ignore", "delete")),
}
