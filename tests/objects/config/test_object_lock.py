from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, InvalidRetention
from lakebed.objects.config.object_lock import (
    DefaultRetention,
    LegalHold,
    ObjectLockConfiguration,
    Retention,
    RetentionMode,
    check_retention_date,
    default_retention,
    may_change_retention,
    may_delete_version,
)

NOW = 1_000_000
GOVERNANCE, COMPLIANCE = RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE
retentions = st.none() | st.builds(Retention, st.sampled_from(RetentionMode), st.integers(NOW - 5, NOW + 5))


@pytest.mark.parametrize(
    ("mode", "until", "bypass", "allowed"),
    [
        (GOVERNANCE, NOW + 1, False, False),
        (GOVERNANCE, NOW + 1, True, True),
        (COMPLIANCE, NOW + 1, False, False),
        (COMPLIANCE, NOW + 1, True, False),
        (GOVERNANCE, NOW, False, True),
        (COMPLIANCE, NOW, False, True),
    ],
)
def test_retained_version_may_be_deleted_only_after_retention_or_with_bypass(
    mode: RetentionMode, until: int, bypass: bool, allowed: bool
) -> None:
    for hold in (None, LegalHold.OFF):
        assert may_delete_version(Retention(mode, until), hold, NOW, bypass_governance=bypass) is allowed


@given(retentions, st.booleans())
def test_version_on_legal_hold_is_never_deleted(retention: Retention | None, bypass: bool) -> None:
    assert not may_delete_version(retention, LegalHold.ON, NOW, bypass_governance=bypass)


def test_version_without_lock_may_be_deleted() -> None:
    assert may_delete_version(None, None, NOW)


@given(st.integers(NOW + 1, NOW + 5), retentions, st.booleans())
def test_compliance_retention_can_only_be_extended(until: int, new: Retention | None, bypass: bool) -> None:
    allowed = may_change_retention(Retention(COMPLIANCE, until), new, NOW, bypass_governance=bypass)
    assert allowed == (new is not None and new.mode is COMPLIANCE and new.until_ms >= until)


@given(st.integers(NOW + 1, NOW + 5), retentions)
def test_governance_retention_can_be_shortened_only_with_bypass(until: int, new: Retention | None) -> None:
    current = Retention(GOVERNANCE, until)
    assert may_change_retention(current, new, NOW, bypass_governance=True)
    longer = new is not None and new.mode is GOVERNANCE and new.until_ms >= until
    assert may_change_retention(current, new, NOW) == longer


@given(st.sampled_from(RetentionMode), retentions)
def test_ended_or_absent_retention_may_be_changed(mode: RetentionMode, new: Retention | None) -> None:
    assert may_change_retention(Retention(mode, NOW), new, NOW)
    assert may_change_retention(None, new, NOW)


def test_default_retention_counts_from_the_write() -> None:
    day = 86_400_000
    for rule, expected in (
        (DefaultRetention(GOVERNANCE, days=3), NOW + 3 * day),
        (DefaultRetention(GOVERNANCE, years=2), NOW + 730 * day),
    ):
        assert default_retention(ObjectLockConfiguration(rule), NOW) == Retention(GOVERNANCE, expected)
    assert default_retention(ObjectLockConfiguration(), NOW) is None


@pytest.mark.parametrize(("days", "years"), [(0, None), (-1, None), (36_501, None), (None, 0), (None, 101)])
def test_invalid_period_is_rejected(days: int | None, years: int | None) -> None:
    with pytest.raises(InvalidRetention):
        DefaultRetention(GOVERNANCE, days, years)


@pytest.mark.parametrize(("days", "years"), [(None, None), (1, 1)])
def test_period_requires_days_or_years(days: int | None, years: int | None) -> None:
    with pytest.raises(InvalidInput, match="not both"):
        DefaultRetention(GOVERNANCE, days, years)


def test_new_retention_must_end_in_the_future() -> None:
    check_retention_date(Retention(GOVERNANCE, NOW + 1), NOW)
    with pytest.raises(InvalidInput) as refused:
        check_retention_date(Retention(GOVERNANCE, NOW), NOW)
    assert refused.value.argument == "RetainUntilDate"
