"""Object lock: versions that may not be deleted before a date, or while a hold is on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core.errors import InvalidInput, InvalidRetention

__all__ = [
    "DefaultRetention",
    "LegalHold",
    "ObjectLockConfiguration",
    "Retention",
    "RetentionMode",
    "check_retention_date",
    "default_retention",
    "may_change_retention",
    "may_delete_version",
]

_DAY_MS: Final = 86_400_000
_DAYS_IN_YEAR: Final = 365
_MAX_DAYS: Final = 36_500
_MAX_YEARS: Final = 100


class RetentionMode(StrEnum):
    """How hard a retention is."""

    GOVERNANCE = "GOVERNANCE"
    """Who has the permission to bypass it may."""

    COMPLIANCE = "COMPLIANCE"
    """Nobody may, not even root; it can only be made longer."""


class LegalHold(StrEnum):
    """A hold without an end, until it is taken off."""

    ON = "ON"
    OFF = "OFF"


@dataclass(frozen=True, slots=True)
class Retention:
    """One version is kept until a moment."""

    mode: RetentionMode
    until_ms: int

    def is_active(self, now_ms: int) -> bool:
        """Whether the moment is still to come."""
        return now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class DefaultRetention:
    """How long new versions of a bucket are kept: days or years, not both. Raises InvalidRetention."""

    mode: RetentionMode
    days: int | None = None
    years: int | None = None

    def __post_init__(self) -> None:
        if (self.days is None) == (self.years is None):
            raise InvalidInput("default retention needs days or years, not both")
        if self.days is not None and not 1 <= self.days <= _MAX_DAYS:
            raise InvalidRetention(
                f"retention must be 1 to {_MAX_DAYS} days. days={self.days}", argument="Days", value=str(self.days)
            )
        if self.years is not None and not 1 <= self.years <= _MAX_YEARS:
            raise InvalidRetention(
                f"retention must be 1 to {_MAX_YEARS} years. years={self.years}",
                argument="Years",
                value=str(self.years),
            )


@dataclass(frozen=True, slots=True)
class ObjectLockConfiguration:
    """A bucket with object lock; whether new versions are locked is up to the default rule."""

    default: DefaultRetention | None = None


def default_retention(config: ObjectLockConfiguration, now_ms: int) -> Retention | None:
    """The retention of a version written now without one of its own."""
    rule = config.default
    if rule is None:
        return None
    days = rule.days if rule.days is not None else (rule.years or 0) * _DAYS_IN_YEAR
    return Retention(rule.mode, now_ms + days * _DAY_MS)


def check_retention_date(retention: Retention, now_ms: int) -> None:
    """Raise InvalidInput if a retention that is being set is over already."""
    if not retention.is_active(now_ms):
        raise InvalidInput("retain until date must be in the future", argument="RetainUntilDate")


def may_delete_version(
    retention: Retention | None, hold: LegalHold | None, now_ms: int, *, bypass_governance: bool = False
) -> bool:
    """Whether a version may be deleted for good. Bypass counts only if the caller was found to have the permission."""
    if hold is LegalHold.ON:
        return False
    if retention is None or not retention.is_active(now_ms):
        return True
    return retention.mode is RetentionMode.GOVERNANCE and bypass_governance


def may_change_retention(
    current: Retention | None, new: Retention | None, now_ms: int, *, bypass_governance: bool = False
) -> bool:
    """Whether a version's retention may become `new` (None takes it off).

    Longer in the same mode is always allowed; shorter, weaker or another mode only under governance with bypass.
    """
    if current is None or not current.is_active(now_ms):
        return True
    if new is not None and new.mode is current.mode and new.until_ms >= current.until_ms:
        return True
    return current.mode is RetentionMode.GOVERNANCE and bypass_governance
