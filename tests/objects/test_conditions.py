"""Conditional requests: a table of S3's responses."""

from __future__ import annotations

import pytest

from lakebed.core.errors import LakebedError, NoSuchKey, NotModified, PreconditionFailed
from lakebed.objects.conditions import (
    NO_READ_CONDITIONS,
    NO_WRITE_CONDITIONS,
    ReadConditions,
    WriteConditions,
    check_copy_source,
    check_delete,
    check_read,
    check_write,
    etag_matches,
)

ETAG = "9bb58f26192e4ba00f01e2e7b136bbd8"
OTHER = "d41d8cd98f00b204e9800998ecf8427e"
MODIFIED_MS = 1_700_000_000_500
BEFORE_MS = 1_699_999_999_000
SAME_SECOND_MS = 1_700_000_000_000
AFTER_MS = 1_700_000_001_000


@pytest.mark.parametrize(
    ("condition", "current", "failure"),
    [
        (WriteConditions(), None, None),
        (WriteConditions(), ETAG, None),
        (WriteConditions(if_none_match="*"), None, None),
        (WriteConditions(if_none_match="*"), ETAG, PreconditionFailed),
        (WriteConditions(if_none_match=ETAG), ETAG, PreconditionFailed),
        (WriteConditions(if_none_match=OTHER), ETAG, None),
        (WriteConditions(if_none_match=ETAG), None, None),
        (WriteConditions(if_match=ETAG), ETAG, None),
        (WriteConditions(if_match=OTHER), ETAG, PreconditionFailed),
        (WriteConditions(if_match="*"), ETAG, None),
        (WriteConditions(if_match=ETAG), None, NoSuchKey),
        (WriteConditions(if_match="*"), None, NoSuchKey),
        (WriteConditions(if_match=ETAG, if_none_match="*"), ETAG, PreconditionFailed),
    ],
)
def test_write_condition_is_evaluated_against_the_current_object(
    condition: WriteConditions, current: str | None, failure: type[LakebedError] | None
) -> None:
    if failure is None:
        check_write(condition, current)
    else:
        with pytest.raises(failure):
            check_write(condition, current)


@pytest.mark.parametrize(
    ("condition", "current", "failure"),
    [
        (WriteConditions(), None, None),
        (WriteConditions(if_match=ETAG), ETAG, None),
        (WriteConditions(if_match=OTHER), ETAG, PreconditionFailed),
        (WriteConditions(if_match="*"), ETAG, None),
        (WriteConditions(if_match=ETAG), None, NoSuchKey),
        (WriteConditions(if_match="*"), None, NoSuchKey),
        (WriteConditions(if_match_size=3), ETAG, None),
        (WriteConditions(if_match_size=4), ETAG, PreconditionFailed),
        (WriteConditions(if_match_size=0), ETAG, PreconditionFailed),
        (WriteConditions(if_match_size=3), None, None),
        (WriteConditions(if_match_modified_ms=SAME_SECOND_MS), ETAG, None),
        (WriteConditions(if_match_modified_ms=BEFORE_MS), ETAG, PreconditionFailed),
        (WriteConditions(if_match_modified_ms=AFTER_MS), ETAG, PreconditionFailed),
        (WriteConditions(if_match_modified_ms=BEFORE_MS), None, None),
        (WriteConditions(ETAG, None, 3, SAME_SECOND_MS), ETAG, None),
    ],
)
def test_delete_condition_is_evaluated_against_the_current_object(
    condition: WriteConditions, current: str | None, failure: type[LakebedError] | None
) -> None:
    if failure is None:
        check_delete(condition, current, 3, MODIFIED_MS)
    else:
        with pytest.raises(failure):
            check_delete(condition, current, 3, MODIFIED_MS)


@pytest.mark.parametrize(
    ("condition", "failure"),
    [
        (ReadConditions(), None),
        (ReadConditions(if_match=ETAG), None),
        (ReadConditions(if_match="*"), None),
        (ReadConditions(if_match=OTHER), PreconditionFailed),
        (ReadConditions(if_none_match=OTHER), None),
        (ReadConditions(if_none_match=ETAG), NotModified),
        (ReadConditions(if_none_match="*"), NotModified),
        (ReadConditions(if_modified_since_ms=BEFORE_MS), None),
        (ReadConditions(if_modified_since_ms=SAME_SECOND_MS), NotModified),
        (ReadConditions(if_modified_since_ms=AFTER_MS), NotModified),
        (ReadConditions(if_unmodified_since_ms=BEFORE_MS), PreconditionFailed),
        (ReadConditions(if_unmodified_since_ms=SAME_SECOND_MS), None),
        (ReadConditions(if_unmodified_since_ms=AFTER_MS), None),
        # In combinations, an ETag takes precedence over a time.
        (ReadConditions(if_match=ETAG, if_unmodified_since_ms=BEFORE_MS), None),
        (ReadConditions(if_match=OTHER, if_unmodified_since_ms=AFTER_MS), PreconditionFailed),
        (ReadConditions(if_none_match=ETAG, if_modified_since_ms=BEFORE_MS), NotModified),
        (ReadConditions(if_none_match=OTHER, if_modified_since_ms=AFTER_MS), None),
        (ReadConditions(if_match=ETAG, if_none_match=ETAG), NotModified),
    ],
)
def test_read_condition_on_etag_precedes_time(condition: ReadConditions, failure: type[LakebedError] | None) -> None:
    if failure is None:
        check_read(condition, ETAG, MODIFIED_MS)
        check_copy_source(condition, ETAG, MODIFIED_MS)
        return
    with pytest.raises(failure):
        check_read(condition, ETAG, MODIFIED_MS)
    with pytest.raises(PreconditionFailed):
        check_copy_source(condition, ETAG, MODIFIED_MS)


def test_not_modified_contains_etag_and_time() -> None:
    with pytest.raises(NotModified) as unchanged:
        check_read(ReadConditions(if_none_match=ETAG), ETAG, MODIFIED_MS)
    assert (unchanged.value.etag, unchanged.value.modified_ms) == (ETAG, MODIFIED_MS)


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        (ReadConditions(if_none_match=ETAG), "x-amz-copy-source-If-None-Match"),
        (ReadConditions(if_modified_since_ms=AFTER_MS), "x-amz-copy-source-If-Modified-Since"),
        (ReadConditions(if_match=OTHER), "If-Match"),
    ],
)
def test_failed_copy_names_its_condition(condition: ReadConditions, name: str) -> None:
    with pytest.raises(PreconditionFailed) as failed:
        check_copy_source(condition, ETAG, MODIFIED_MS)
    assert failed.value.condition == name


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        (ETAG, True),
        (f'"{ETAG}"', True),
        (f'W/"{ETAG}"', True),
        (f'"{OTHER}", "{ETAG}"', True),
        (f"{OTHER},{ETAG}", True),
        (" * ", True),
        (OTHER, False),
        ("", False),
        (f'"{ETAG[:-1]}"', False),
        (ETAG.upper(), False),
    ],
)
def test_etags_match_quoted_and_bare(text: str, matches: bool) -> None:
    assert etag_matches(text, ETAG) is matches


def test_empty_conditions_are_falsy() -> None:
    assert not NO_WRITE_CONDITIONS
    assert WriteConditions(if_match_size=0)
    assert WriteConditions(if_match="")
    check_read(NO_READ_CONDITIONS, ETAG, MODIFIED_MS)
