from __future__ import annotations

import pytest

from lakebed.events.live.feed import S3EventFilter
from lakebed.events.names import EventName
from tests.events.made import other_entry, s3_entry

CREATED = EventName.OBJECT_CREATED_ALL.mask


@pytest.mark.parametrize(
    ("asked", "expected"),
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
def test_a_listener_has_what_it_asks_for(asked: S3EventFilter, expected: bool) -> None:
    assert asked.matches(s3_entry("ObjectCreated:Put")) is expected


def test_what_is_not_of_s3_is_for_nobody_who_listens_to_s3() -> None:
    everything = S3EventFilter(EventName.EVERYTHING.mask)
    assert everything.matches(s3_entry("BucketCreated", key=""))
    assert not everything.matches(other_entry())
