"""Policies as settings of jobs: their content in terms of job options. Pure.

Published keys of these policies and our own mean the same options. The reason of every task that a policy requires
lists the policy's unknown keys as ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from lakebed.core.errors import InvalidPolicy
from lakebed.core.jobs import JobKind, Option
from lakebed.governance.policies.config_options import OptionValue
from lakebed.governance.policies.maintenance_content import (
    CONFIG_OPTIONS,
    DATA_COMPACTION,
    METADATA_COMPACTION,
    ORPHAN_FILE_REMOVAL,
    SNAPSHOT_EXPIRY,
    YOUNGEST_ORPHAN_MS,
    MaintenanceContent,
    parse_maintenance_content,
)

from .job_options import JOB_OPTIONS, as_option

__all__ = ["JobInstruction", "PolicySettings", "read_policy"]

DAY_MS: Final = 86_400_000

_JOBS: Final[Mapping[str, JobKind]] = {
    DATA_COMPACTION: JobKind.COMPACT,
    METADATA_COMPACTION: JobKind.REWRITE_MANIFESTS,
    ORPHAN_FILE_REMOVAL: JobKind.REMOVE_ORPHANS,
    SNAPSHOT_EXPIRY: JobKind.EXPIRE_SNAPSHOTS,
}
_IN_DAYS: Final = frozenset({"max_snapshot_age_days", "max_ref_age_days"})
"""Published keys in days whose option is in milliseconds."""

INTERVALS_MS: Final[Mapping[JobKind, int]] = {
    JobKind.COMPACT: 60_000,
    JobKind.REWRITE_MANIFESTS: 600_000,
    JobKind.EXPIRE_SNAPSHOTS: 600_000,
    JobKind.REMOVE_ORPHANS: DAY_MS,
    JobKind.COMPUTE_STATISTICS: DAY_MS,
    JobKind.REWRITE_LAYOUT: DAY_MS,
}
"""How long a job pauses on a table after a run, unless the policy has an interval: a table with a commit every second
would be rewritten every second."""

_LONGEST_MS: Final = 10_000 * 365 * DAY_MS
"""Practically unlimited, and still a number that every store and client can hold."""
_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class JobInstruction:
    """The settings of one job."""

    job: JobKind
    options: Mapping[str, Option]
    interval_ms: int


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The settings of a policy."""

    enabled: bool
    instructions: tuple[JobInstruction, ...] = ()
    ignored: tuple[str, ...] = ()
    """Keys that are ignored, some with the reason."""
    fault: str = ""
    """Why the content is invalid, if it is: it may be of an older release."""


def read_policy(policy_type: str, content: str, parameters: Mapping[str, str]) -> PolicySettings | None:
    """The settings of a policy of a system type; None for other types, which the server does not act on.

    Parameters that were given with the attachment come before `config`, key by key.
    """
    if policy_type not in _JOBS:
        return None
    return _read(policy_type, content, tuple(sorted(parameters.items())))


@lru_cache(maxsize=_REMEMBERED)
def _read(policy_type: str, text: str, parameters: tuple[tuple[str, str], ...]) -> PolicySettings:
    """Few policies apply to many tables: each is parsed once."""
    try:
        content = parse_maintenance_content(policy_type, text)
    except InvalidPolicy as error:
        return PolicySettings(enabled=False, fault=str(error))
    means, ignored = _meanings(policy_type, content, parameters)
    return PolicySettings(content.enable, tuple(_instructions(_JOBS[policy_type], means, ignored)), tuple(ignored))


def _meanings(
    policy_type: str, content: MaintenanceContent, parameters: tuple[tuple[str, str], ...]
) -> tuple[dict[str, OptionValue], list[str]]:
    """The options by their canonical names, and the ignored keys."""
    known = CONFIG_OPTIONS[policy_type]
    means: dict[str, OptionValue] = {}
    ignored = sorted(content.unknown)
    for name, value in content.config.items():
        if name in known:
            means[known[name].canonical_name] = _in_milliseconds(name, value)
    if content.max_orphan_file_age_days is not None:
        means["older-than-ms"] = min(content.max_orphan_file_age_days * DAY_MS, _LONGEST_MS)
    if content.locations is not None:
        means["locations"] = content.locations
    for name, text in parameters:
        option = known.get(name)
        found = None if option is None else option.parser.read(text)
        if option is None:
            ignored.append(f"{name} (a parameter)")
        elif found is None:
            ignored.append(f"{name} (a parameter; it must be {option.parser.expected})")
        else:
            means[option.canonical_name] = _in_milliseconds(name, found)
    return means, ignored


def _in_milliseconds(name: str, value: OptionValue) -> OptionValue:
    if name not in _IN_DAYS or not isinstance(value, int | float):
        return value
    return min(round(value * DAY_MS), _LONGEST_MS)


def _instructions(job: JobKind, means: Mapping[str, OptionValue], ignored: list[str]) -> list[JobInstruction]:
    interval_ms = _interval_ms(job, means)
    options = {name: as_option(value) for name, value in means.items() if name in JOB_OPTIONS[job]}
    if job is JobKind.REMOVE_ORPHANS:
        _keep_young(options, ignored)
    instructions = [JobInstruction(job, MappingProxyType(options), interval_ms)]
    if job is JobKind.COMPACT:
        if means.get("statistics") is True:
            columns = means.get("statistics-columns")
            described = {} if columns is None else {"columns": as_option(columns)}
            instructions.append(_beside(JobKind.COMPUTE_STATISTICS, described))
        if means.get("layout") is True:
            instructions.append(_beside(JobKind.REWRITE_LAYOUT, {}))
    return instructions


def _beside(job: JobKind, options: dict[str, Option]) -> JobInstruction:
    return JobInstruction(job, MappingProxyType(options), INTERVALS_MS[job])


def _interval_ms(job: JobKind, means: Mapping[str, OptionValue]) -> int:
    seconds = means.get("interval")
    return min(round(seconds * 1000), _LONGEST_MS) if isinstance(seconds, int | float) else INTERVALS_MS[job]


def _keep_young(options: dict[str, Option], ignored: list[str]) -> None:
    """Raise an age below which files may belong to a running write, unless `allow-young` is set."""
    age = options.get("older-than-ms")
    if isinstance(age, int) and age < YOUNGEST_ORPHAN_MS and options.get("allow-young") is not True:
        options["older-than-ms"] = YOUNGEST_ORPHAN_MS
        ignored.append("an age of orphans below 24 hours (allow-young is not set)")
