"""Object lock: protects versions from deletion until a date, or during a legal hold."""

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
    """S3's retention modes."""

    GOVERNANCE = "GOVERNANCE"
    """A caller with the permission s3:BypassGovernanceRetention may shorten or ignore it."""

    COMPLIANCE = "COMPLIANCE"
    """No caller can shorten or ignore it, not even root."""


class LegalHold(StrEnum):
    """Protection without an end date, until it is removed."""

    ON = "ON"
    OFF = "OFF"


@dataclass(frozen=True, slots=True)
class Retention:
    """Protects a version until a time."""

    mode: RetentionMode
    until_ms: int

    def is_active(self, now_ms: int) -> bool:
        """Whether the retention has not ended."""
        return now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class DefaultRetention:
    """Retention of new versions in a bucket: days or years, not both. Raises InvalidRetention."""

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
    """Object lock of a bucket, with an optional default retention."""

    default: DefaultRetention | None = None


def default_retention(config: ObjectLockConfiguration, now_ms: int) -> Retention | None:
    """The retention of a version written now without an explicit one."""
    rule = config.default
    if rule is None:
        return None
    days = rule.days if rule.days is not None else (rule.years or 0) * _DAYS_IN_YEAR
    return Retention(rule.mode, now_ms + days * _DAY_MS)


def check_retention_date(retention: Retention, now_ms: int) -> None:
    """Raise InvalidInput if a new retention has already ended."""
    if not retention.is_active(now_ms):
        raise InvalidInput("retain until date must be in the future", argument="RetainUntilDate")


def may_delete_version(
    retention: Retention | None, hold: LegalHold | None, now_ms: int, *, bypass_governance: bool = False
) -> bool:
    """Whether a version may be deleted permanently. Bypass requires that the caller's permission was checked."""
    if hold is LegalHold.ON:
        return False
    if retention is None or not retention.is_active(now_ms):
        return True
    return retention.mode is RetentionMode.GOVERNANCE and bypass_governance


def may_change_retention(
    current: Retention | None, new: Retention | None, now_ms: int, *, bypass_governance: bool = False
) -> bool:
    """Whether a version's retention may become `new` (None removes it).

    Extending it in the same mode is always allowed; shortening it or changing the mode requires governance and bypass.
    """
    if current is None or not current.is_active(now_ms):
        return True
    if new is not None and new.mode is current.mode and new.until_ms >= current.until_ms:
        return True
    return current.mode is RetentionMode.GOVERNANCE and bypass_governance
