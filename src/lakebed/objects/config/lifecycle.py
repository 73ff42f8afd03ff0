"""Lifecycle rules of a bucket: which objects they are about, and what becomes of those.

What the rules mean for an object at a moment is decided in `expiry`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidInput

from .tagging import Tag, TagSet

__all__ = ["Expiration", "LifecycleConfiguration", "LifecycleFilter", "LifecycleRule", "NoncurrentExpiration"]

MAX_RULES: Final = 1000
_MAX_ID: Final = 255
_MAX_DAYS: Final = 2**31 - 1
_MAX_KEPT_VERSIONS: Final = 100
_DAY_MS: Final = 86_400_000


def _check_days(argument: str, days: int) -> None:
    if not 1 <= days <= _MAX_DAYS:
        raise InvalidInput(f"{argument} must be a positive integer. days={days}", argument=argument, value=str(days))


@dataclass(frozen=True, slots=True)
class LifecycleFilter:
    """Which objects a rule is about: all that is given must hold; nothing given means every object."""

    prefix: str | None = None
    tags: tuple[Tag, ...] = ()
    larger_than_bytes: int | None = None
    smaller_than_bytes: int | None = None

    def __post_init__(self) -> None:
        TagSet(self.tags)  # its rules hold here too: no key twice
        larger, smaller = self.larger_than_bytes, self.smaller_than_bytes
        if larger is not None and larger < 0:
            raise InvalidInput("size must not be negative", argument="ObjectSizeGreaterThan", value=str(larger))
        if smaller is not None and smaller < 1:
            raise InvalidInput("size must be positive", argument="ObjectSizeLessThan", value=str(smaller))
        if larger is not None and smaller is not None and larger >= smaller:
            raise InvalidInput(f"no size is both. larger_than={larger} smaller_than={smaller}")

    @property
    def looks_inside(self) -> bool:
        """Whether it asks for tags or sizes, which delete markers and unfinished uploads do not have."""
        return bool(self.tags) or self.larger_than_bytes is not None or self.smaller_than_bytes is not None

    @property
    def conditions(self) -> int:
        """How many things it asks for."""
        return (
            (self.prefix is not None)
            + len(self.tags)
            + (self.larger_than_bytes is not None)
            + (self.smaller_than_bytes is not None)
        )

    def matches_key(self, key: str) -> bool:
        """Whether the prefix fits."""
        return not self.prefix or key.startswith(self.prefix)

    def matches(self, key: str, size: int, tags: TagSet) -> bool:
        """Whether it is about this object."""
        return (
            self.matches_key(key)
            and (self.larger_than_bytes is None or size > self.larger_than_bytes)
            and (self.smaller_than_bytes is None or size < self.smaller_than_bytes)
            and tags.has_all(self.tags)
        )


@dataclass(frozen=True, slots=True)
class Expiration:
    """When current objects end. One of: after days, at a date, and (delete markers that hide nothing) at once."""

    days: int | None = None
    at_ms: int | None = None
    delete_markers: bool | None = None

    def __post_init__(self) -> None:
        if sum(choice is not None for choice in (self.days, self.at_ms, self.delete_markers)) != 1:
            raise InvalidInput("expiration needs exactly one of days, date and expired object delete marker")
        if self.days is not None:
            _check_days("Days", self.days)
        if self.at_ms is not None and self.at_ms % _DAY_MS:
            raise InvalidInput("date must be at midnight, GMT", argument="Date", value=str(self.at_ms))


@dataclass(frozen=True, slots=True)
class NoncurrentExpiration:
    """When versions that were replaced end, and how many of the newest of them stay regardless."""

    days: int
    keep_newest: int | None = None

    def __post_init__(self) -> None:
        _check_days("NoncurrentDays", self.days)
        if self.keep_newest is not None and not 1 <= self.keep_newest <= _MAX_KEPT_VERSIONS:
            raise InvalidInput(
                f"newer noncurrent versions must be 1 to {_MAX_KEPT_VERSIONS}. value={self.keep_newest}",
                argument="NewerNoncurrentVersions",
                value=str(self.keep_newest),
            )


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """One rule. At least one action."""

    id: str
    enabled: bool
    filter: LifecycleFilter
    expiration: Expiration | None = None
    noncurrent: NoncurrentExpiration | None = None
    abort_uploads_after_days: int | None = None
    has_legacy_prefix: bool = False
    """Whether the prefix was given outside a filter, as in the first version of the schema, and is shown so."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.id) <= _MAX_ID:
            raise InvalidInput(f"rule id may have {_MAX_ID} characters. length={len(self.id)}", argument="ID")
        if self.expiration is None and self.noncurrent is None and self.abort_uploads_after_days is None:
            raise InvalidInput(f"rule needs at least one action. id={self.id}")
        if self.abort_uploads_after_days is not None:
            _check_days("DaysAfterInitiation", self.abort_uploads_after_days)
            if self.filter.looks_inside:
                raise InvalidInput(f"uploads have neither tags nor size to filter by. id={self.id}")
        if self.expiration is not None and self.expiration.delete_markers is not None and self.filter.looks_inside:
            raise InvalidInput(f"delete markers have neither tags nor size to filter by. id={self.id}")


@dataclass(frozen=True, slots=True)
class LifecycleConfiguration:
    """A bucket's rules: 1 to 1,000, no id twice."""

    rules: tuple[LifecycleRule, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.rules) <= MAX_RULES:
            raise InvalidInput(f"lifecycle needs 1 to {MAX_RULES} rules. count={len(self.rules)}")
        seen: set[str] = set()
        for rule in self.rules:
            if rule.id in seen:
                raise InvalidInput(f"rule id is repeated. id={rule.id}", argument="ID", value=rule.id)
            seen.add(rule.id)

    @property
    def enabled_rules(self) -> Iterable[LifecycleRule]:
        """The rules that are in force."""
        return (rule for rule in self.rules if rule.enabled)

    @property
    def expires_objects(self) -> bool:
        """Whether some rule, in force or not, removes objects or versions, rather than unfinished uploads alone."""
        return any(rule.expiration is not None or rule.noncurrent is not None for rule in self.rules)
