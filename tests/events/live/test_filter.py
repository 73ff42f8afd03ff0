from __future__ import annotations

import pytest

from lakebed.events.live.filter import Listening
from lakebed.events.names import EventName
from tests.events.made import other_entry, s3_entry

CREATED = EventName.OBJECT_CREATED_ALL.mask


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Listening(CREATED), True),
        (Listening(EventName.OBJECT_REMOVED_ALL.mask), False),
        (Listening(CREATED, "sales"), True),
        (Listening(CREATED, "sale"), False),
        (Listening(CREATED, "sales", "in/"), True),
        (Listening(CREATED, "sales", "sales/"), False),
        (Listening(CREATED, "sales", "in/2026 Q1", ".csv"), True),
        (Listening(CREATED, "sales", suffix=".txt"), False),
        (Listening(CREATED, "sales", "in/2026 Q1.csv", "in/2026 Q1.csv"), True),
        (Listening(CREATED, "sales", "in/*"), False),
    ],
)
def test_a_listener_has_what_it_asks_for(asked: Listening, expected: bool) -> None:
    assert asked.takes(s3_entry("ObjectCreated:Put")) is expected


def test_what_is_not_of_s3_is_for_nobody_who_listens_to_s3() -> None:
    everything = Listening(EventName.EVERYTHING.mask)
    assert everything.takes(s3_entry("BucketCreated", key=""))
    assert not everything.takes(other_entry())
