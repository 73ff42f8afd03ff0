from __future__ import annotations

import pytest

from lakebed.events.live.feed import S3EventFilter
from lakebed.events.names import EventName
from tests.events.samples import other_entry, s3_entry

CREATED = EventName.OBJECT_CREATED_ALL.mask


@pytest.mark.parametrize(
    ("event_filter", "expected"),
    [
        (S3EventFilter(CREATED), True),
        (S3EventFilter(EventName.OBJECT_REMOVED_ALL.mask), False),
        (S3EventFilter(CREATED, "sales"), True),
        (S3EventFilter(CREATED, "sale"), False),
        (S3EventFilter(CREATED, "sales", "in/"), True),
        (S3EventFilter(CREATED, "sales", "sales/"), False),
        (S3EventFilter(CREATED, "sales", "in/2026 Q1", ".csv"), True),
        (S3EventFilter(CREATED, "sales", suffix=".txt"), False),
        (S3EventFilter(CREATED, "sales", "in/2026 Q1.csv", "in/2026 Q1.csv"), True),
        (S3EventFilter(CREATED, "sales", "in/*"), False),
    ],
)
def test_filter_matches_mask_bucket_prefix_and_suffix(event_filter: S3EventFilter, expected: bool) -> None:
    assert event_filter.matches(s3_entry("ObjectCreated:Put")) is expected


def test_filter_matches_only_s3_events() -> None:
    everything = S3EventFilter(EventName.EVERYTHING.mask)
    assert everything.matches(s3_entry("BucketCreated", key=""))
    assert not everything.matches(other_entry())
