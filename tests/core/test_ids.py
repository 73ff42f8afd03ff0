from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.ids import (
    RequestIds,
    blob_age_ms,
    new_access_key_id,
    new_blob_id,
    new_secret_key,
    new_upload_id,
    new_version_id,
)


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_blob_id_contains_its_creation_time(born_ms: int, waited_ms: int) -> None:
    blob = new_blob_id(ManualClock(born_ms))
    assert re.fullmatch(r"[0-9a-f]{32}", blob)
    assert blob_age_ms(blob, ManualClock(born_ms + waited_ms)) == waited_ms


def test_later_ids_sort_later() -> None:
    clock = ManualClock()
    for make in (new_blob_id, new_version_id, new_upload_id):
        earlier = make(clock)
        clock.advance(0.001)
        assert earlier < make(clock)


def test_ids_of_the_same_time_differ() -> None:
    clock = ManualClock()
    for make in (new_blob_id, new_version_id, new_upload_id):
        assert len({make(clock) for _ in range(1000)}) == 1000


def test_access_keys_have_the_form_that_aws_clients_expect() -> None:
    assert re.fullmatch(r"LKBD[A-Z2-7]{16}", new_access_key_id())
    assert re.fullmatch(r"ASIA[A-Z2-7]{16}", new_access_key_id("ASIA"))


def test_secret_keys_are_40_characters_and_never_repeat() -> None:
    made = {new_secret_key() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{40}", key) for key in made)


def test_request_ids_count_in_a_process_and_differ_between_processes() -> None:
    here, there = RequestIds(), RequestIds()
    first, second, foreign = here.next(), here.next(), there.next()
    assert int(second, 16) == int(first, 16) + 1
    assert all(re.fullmatch(r"[0-9A-F]{16}", made) for made in (first, second, foreign))
    assert foreign[:10] != first[:10]
