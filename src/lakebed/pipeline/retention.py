"""Which snapshots, branches and tags of a table have expired, by the rules of the Iceberg specification. Pure.

Spark decides by the same rules when it commits; this tells beforehand, and why nothing would go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAIN: Final = "main"
DEFAULT_MAX_AGE_MS: Final = 5 * 86_400_000
DEFAULT_KEPT: Final = 1

GC_ENABLED: Final = "gc.enabled"
MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot."""

    id: int
    parent: int | None
    committed_ms: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A branch or a tag, with the limits that it carries itself."""

    name: str
    is_branch: bool
    snapshot: int
    min_snapshots: int | None = None
    max_age_ms: int | None = None
    max_ref_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept where a branch or tag says nothing itself."""

    min_snapshots: int
    max_age_ms: int
    max_ref_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Expired:
    """What goes."""

    references: tuple[Reference, ...]
    snapshots: tuple[int, ...]


def limits_of(
    properties: Mapping[str, str],
    *,
    min_snapshots: int | None,
    max_age_ms: int | None,
    max_ref_age_ms: int | None,
) -> Limits:
    """What was asked for, the table's own properties being a floor: never is less kept than they say.

    Raises ValueError for a property that is no number: what the table wants to keep cannot be told.
    """
    stated = {
        name: int(properties[name]) for name in (MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE, MAX_REF_AGE) if name in properties
    }
    kept, age = stated.get(MIN_SNAPSHOTS), stated.get(MAX_SNAPSHOT_AGE)
    ref_ages = [one for one in (stated.get(MAX_REF_AGE), max_ref_age_ms) if one is not None]
    return Limits(
        _most(min_snapshots, kept, DEFAULT_KEPT),
        _most(max_age_ms, age, DEFAULT_MAX_AGE_MS),
        max(ref_ages) if ref_ages else None,
    )


def expired(snapshots: Sequence[Snapshot], references: Sequence[Reference], limits: Limits, now_ms: int) -> Expired:
    """What has expired by now."""
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    old = tuple(
        reference
        for reference in references
        if reference.name != MAIN and _is_old(reference, by_id.get(reference.snapshot), limits, now_ms)
    )
    kept: set[int] = set()
    led_to: set[int] = set()
    for reference in references:
        if reference in old:
            continue
        kept.add(reference.snapshot)
        led_to.add(reference.snapshot)
        if reference.is_branch:
            _keep_line(reference, by_id, limits, now_ms, kept, led_to)
    kept |= {one.id for one in snapshots if one.id not in led_to and now_ms - one.committed_ms <= limits.max_age_ms}
    return Expired(old, tuple(one.id for one in snapshots if one.id not in kept))


def _keep_line(
    reference: Reference,
    by_id: Mapping[int, Snapshot],
    limits: Limits,
    now_ms: int,
    kept: set[int],
    led_to: set[int],
) -> None:
    least = reference.min_snapshots or limits.min_snapshots
    age_ms = limits.max_age_ms if reference.max_age_ms is None else reference.max_age_ms
    keeps = True
    for index, snapshot in enumerate(_line(reference.snapshot, by_id)):
        led_to.add(snapshot.id)
        # Behind the first that goes nothing is kept: a branch is one unbroken line.
        keeps = keeps and (index < least or now_ms - snapshot.committed_ms <= age_ms)
        if keeps:
            kept.add(snapshot.id)


def _line(start: int, by_id: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    seen: set[int] = set()
    at: int | None = start
    while at is not None and at in by_id and at not in seen:
        seen.add(at)
        yield by_id[at]
        at = by_id[at].parent


def _is_old(reference: Reference, snapshot: Snapshot | None, limits: Limits, now_ms: int) -> bool:
    limit = limits.max_ref_age_ms if reference.max_ref_age_ms is None else reference.max_ref_age_ms
    return limit is not None and snapshot is not None and now_ms - snapshot.committed_ms > limit


def _most(asked: int | None, stated: int | None, default: int) -> int:
    given = [one for one in (asked, stated) if one is not None]
    return max(given) if given else default
