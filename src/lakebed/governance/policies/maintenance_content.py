"""The content of system policies. Errors have a JSON path.

    {"version": "2025-02-03", "enable": true, "config": {…}}

Orphan file removal has two more keys: `max_orphan_file_age_in_days` and `locations`. Unknown keys are refused, because
they would have no effect. Unknown keys in `config` are kept for the engine that applies the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from . import config_options
from .config_options import ZORDER, ConfigOption, OptionValue, whole
from .json_documents import Json, policy_fault, read_content

SCHEMA_VERSION: Final = "2025-02-03"
"""The only version of the content."""

DATA_COMPACTION: Final = "system.data-compaction"
METADATA_COMPACTION: Final = "system.metadata-compaction"
ORPHAN_FILE_REMOVAL: Final = "system.orphan-file-removal"
SNAPSHOT_EXPIRY: Final = "system.snapshot-expiry"

CONFIG_OPTIONS: Final[Mapping[str, Mapping[str, ConfigOption]]] = {
    DATA_COMPACTION: config_options.DATA_COMPACTION,
    METADATA_COMPACTION: config_options.METADATA_COMPACTION,
    ORPHAN_FILE_REMOVAL: config_options.ORPHAN_FILE_REMOVAL,
    SNAPSHOT_EXPIRY: config_options.SNAPSHOT_EXPIRY,
}
"""The known options, by policy type and name in `config`."""

YOUNGEST_ORPHAN_MS: Final = 24 * 3_600_000
"""Younger files may belong to a write in progress; removing them requires `allow-young`."""

_DAYS: Final = whole(0)
_TOP_KEYS: Final = ("enable", "version", "config")
_ORPHAN_KEYS: Final = ("max_orphan_file_age_in_days", "locations")


@dataclass(frozen=True, slots=True)
class MaintenanceContent:
    """The validated content of a system policy."""

    enable: bool
    config: Mapping[str, OptionValue] = field(default_factory=dict)
    """Options by the given names; known ones are parsed, others unchanged."""
    unknown: frozenset[str] = frozenset()
    """Unknown names among them."""
    max_orphan_file_age_days: int | None = None
    locations: tuple[str, ...] | None = None
    """Directories to search for orphan files, instead of the table's location."""


def parse_maintenance_content(policy_type: str, text: str | None) -> MaintenanceContent:
    """Parse the content of a system policy. Raises InvalidPolicy with the JSON path of the error."""
    allowed = _TOP_KEYS + (_ORPHAN_KEYS if policy_type == ORPHAN_FILE_REMOVAL else ())
    document, enable = read_content(text, allowed, SCHEMA_VERSION)
    options = CONFIG_OPTIONS[policy_type]
    config = _config(options, document.get("config"))
    _check_combination(config)
    content = MaintenanceContent(
        enable=enable,
        config=config,
        unknown=frozenset(config.keys() - options.keys()),
        max_orphan_file_age_days=_days(document.get("max_orphan_file_age_in_days")),
        locations=_locations(document.get("locations")),
    )
    _check_duplicates(content)
    return content


def _config(options: Mapping[str, ConfigOption], config: Json) -> dict[str, OptionValue]:
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise policy_fault(("config",), "must be an object", config)
    parsed: dict[str, OptionValue] = {}
    used: dict[str, str] = {}
    for name, value in config.items():
        option = options.get(name)
        if option is None:
            if not isinstance(value, str | int | float):
                raise policy_fault(("config", name), "must be a string, a number, or true or false", value)
            parsed[name] = value
            continue
        found = option.parser.read(value)
        if found is None:
            raise policy_fault(("config", name), f"must be {option.parser.expected}", value)
        other = used.setdefault(option.canonical_name, name)
        if other != name:
            raise policy_fault(("config", name), f"duplicates {other}; remove one of them")
        parsed[name] = found
    return parsed


def _check_combination(config: Mapping[str, OptionValue]) -> None:
    """Raise InvalidPolicy for options that contradict each other."""
    for name in ("strategy", "compaction_strategy"):
        if config.get(name) == ZORDER and "zorder-columns" not in config:
            raise policy_fault(("config", name), "zorder requires zorder-columns")
    target = "target-file-size-bytes" if "target-file-size-bytes" in config else "target_file_size_bytes"
    sizes = [(name, config[name]) for name in ("min-file-size-bytes", target, "max-file-size-bytes") if name in config]
    for (lower, least), (upper, most) in pairwise(sizes):
        if isinstance(least, int) and isinstance(most, int) and least >= most:
            raise policy_fault(("config", upper), f"must be more than {lower}", most)
    age = config.get("older-than-ms")
    if isinstance(age, int) and age < YOUNGEST_ORPHAN_MS and not config.get("allow-young"):
        raise policy_fault(
            ("config", "older-than-ms"), f"must be at least {YOUNGEST_ORPHAN_MS}, or set allow-young to true", age
        )


def _check_duplicates(content: MaintenanceContent) -> None:
    if content.locations is not None and "locations" in content.config:
        raise policy_fault(("config", "locations"), "duplicates $.locations; remove one of them")
    if content.max_orphan_file_age_days is not None and "older-than-ms" in content.config:
        raise policy_fault(
            ("config", "older-than-ms"),
            "duplicates $.max_orphan_file_age_in_days; remove one of them",
        )


def _days(value: Json) -> int | None:
    if value is None:
        return None
    days = _DAYS.read(value)
    if not isinstance(days, int):
        raise policy_fault(("max_orphan_file_age_in_days",), f"must be {_DAYS.expected}", value)
    return days


def _locations(value: Json) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise policy_fault(("locations",), "must be a list of strings", value)
    for number, location in enumerate(value):
        if not isinstance(location, str) or not location.strip():
            raise policy_fault(("locations", number), "must be a non-empty string", location)
    return tuple(value) or None
