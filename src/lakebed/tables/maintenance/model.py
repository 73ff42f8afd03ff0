"""The values of upkeep: how jobs went last, and what is planned for a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from lakebed.core.jobs import JobKind, Option, PolicyOrigin, TaskOrder

from .rules.triggers import Look, Verdict

__all__ = ["Plan", "PlannedTask", "Quiet", "Run", "options_text"]


@dataclass(frozen=True, slots=True)
class Run:
    """How a job went on a table, as far as it is remembered."""

    job: JobKind
    task: int
    version_token: str
    """The version of the table that the last run which succeeded began on."""
    options: str
    """What it was told."""
    succeeded_ms: int | None = None
    failures: int = 0
    """Tasks that were given up since."""
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task that is worth running, and when it may begin."""

    order: TaskOrder
    run_at_ms: int
    """Before now for those that would help more: a queue hands out what is longest due."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Why a policy leads to nothing, as things are."""

    policy: PolicyOrigin
    job: JobKind | None
    """None if it is about the policy itself."""
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the policies of a table come to."""

    tasks: tuple[PlannedTask, ...] = ()
    quiet: tuple[Quiet, ...] = ()
    closer: Look = Look.SUMMARY
    """How closely the table has to be looked at for all of it to be decided."""
    again_ms: int | None = None
    """When time alone may ask for more."""
    verdicts: Mapping[JobKind, Verdict] = field(default_factory=dict)
    """What was decided of each job."""


def options_text(options: Mapping[str, Option]) -> str:
    """Options as one text: the same ones are the same text."""
    return msgspec.json.encode(dict(sorted(options.items()))).decode()
