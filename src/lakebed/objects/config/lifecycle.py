"""Lifecycle rules of a bucket: filters and actions. `expiry` evaluates them."""

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
    """Selects the objects of a rule: all given conditions must match; an empty filter selects every object."""

    prefix: str | None = None
    tags: tuple[Tag, ...] = ()
    larger_than_bytes: int | None = None
    smaller_than_bytes: int | None = None

    def __post_init__(self) -> None:
        TagSet(self.tags)  # checks for repeated keys
        larger, smaller = self.larger_than_bytes, self.smaller_than_bytes
        if larger is not None and larger < 0:
            raise InvalidInput("size must not be negative", argument="ObjectSizeGreaterThan", value=str(larger))
        if smaller is not None and smaller < 1:
            raise InvalidInput("size must be positive", argument="ObjectSizeLessThan", value=str(smaller))
        if larger is not None and smaller is not None and larger >= smaller:
            raise InvalidInput(
                f"ObjectSizeGreaterThan must be less than ObjectSizeLessThan. greater={larger} less={smaller}"
            )

    @property
    def has_object_conditions(self) -> bool:
        """Whether it has conditions on tags or size, which delete markers and incomplete uploads do not have."""
        return bool(self.tags) or self.larger_than_bytes is not None or self.smaller_than_bytes is not None

    @property
    def conditions(self) -> int:
        """The number of conditions."""
        return (
            (self.prefix is not None)
            + len(self.tags)
            + (self.larger_than_bytes is not None)
            + (self.smaller_than_bytes is not None)
        )

    def matches_key(self, key: str) -> bool:
        """Whether the prefix matches."""
        return not self.prefix or key.startswith(self.prefix)

    def matches(self, key: str, size: int, tags: TagSet) -> bool:
        """Whether the filter selects this object."""
        return (
            self.matches_key(key)
            and (self.larger_than_bytes is None or size > self.larger_than_bytes)
            and (self.smaller_than_bytes is None or size < self.smaller_than_bytes)
            and tags.has_all(self.tags)
        )


@dataclass(frozen=True, slots=True)
class Expiration:
    """Expires current objects. Exactly one of: days, date, expired object delete marker."""

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
    """Expires noncurrent versions, except a number of the newest ones."""

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
    """A lifecycle rule with at least one action."""

    id: str
    enabled: bool
    filter: LifecycleFilter
    expiration: Expiration | None = None
    noncurrent: NoncurrentExpiration | None = None
    abort_uploads_after_days: int | None = None
    has_legacy_prefix: bool = False
    """Whether the prefix was given outside a filter, as in the first schema version, and is returned there."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.id) <= _MAX_ID:
            raise InvalidInput(f"rule id may have {_MAX_ID} characters. length={len(self.id)}", argument="ID")
        if self.expiration is None and self.noncurrent is None and self.abort_uploads_after_days is None:
            raise InvalidInput(f"rule needs at least one action. id={self.id}")
        if self.abort_uploads_after_days is not None:
            _check_days("DaysAfterInitiation", self.abort_uploads_after_days)
            if self.filter.has_object_conditions:
                raise InvalidInput(f"uploads cannot be filtered by tags or size. id={self.id}")
        if (
            self.expiration is not None
            and self.expiration.delete_markers is not None
            and self.filter.has_object_conditions
        ):
            raise InvalidInput(f"delete markers cannot be filtered by tags or size. id={self.id}")


@dataclass(frozen=True, slots=True)
class LifecycleConfiguration:
    """A bucket's 1 to 1,000 rules with unique ids."""

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
        """The enabled rules."""
        return (rule for rule in self.rules if rule.enabled)

    @property
    def expires_objects(self) -> bool:
        """Whether any rule, enabled or not, expires objects or versions rather than only incomplete uploads."""
        return any(rule.expiration is not None or rule.noncurrent is not None for rule in self.rules)
