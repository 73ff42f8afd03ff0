from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path

import pytest

from lakebed.client import Event, LakebedClient
from lakebed.client import events as module
from lakebed.core.errors import AccessDenied, InvalidInput
from lakebed.core.ids import new_deployment_id
from lakebed.events.ids import EventIds
from tests.clients.users import user_with_actions

from .conftest import Lake, access_to

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_events_are_read_in_order_by_cursor(lake: Lake) -> None:
    before = lake.client.events.read(limit=0).last_seq
    table = lake.table()
    first = lake.client.events.read(before, limit=2)
    rest = lake.client.events.read(first.next_after)
    events_read = [*first.events, *rest.events]
    kinds = [event.kind for event in events_read]
    assert kinds[0] == "BucketCreated"
    assert kinds.index("TableBucketEnabled") < kinds.index("NamespaceCreated") < kinds.index("TableCreated")
    assert [event.seq for event in events_read] == sorted({event.seq for event in events_read})
    created = events_read[kinds.index("TableCreated")]
    assert created.subject == f"{table.warehouse}/ns/t"
    assert created.payload["warehouse"] == table.warehouse
    assert created.payload["namespace"] == ["ns"]
    assert created.payload["principal"] == "root"
    assert (first.next_after, rest.next_after) == (first.events[-1].seq, rest.last_seq)
    assert not first.may_have_missed(before)


def test_filters_select_events_and_the_cursor_passes_the_rest(lake: Lake) -> None:
    before = lake.client.events.read(limit=0).last_seq
    lake.table()
    page = lake.client.events.read(before, kinds=["Table*", "NamespaceCreated"])
    assert {event.kind for event in page.events} == {"TableBucketEnabled", "NamespaceCreated", "TableCreated"}
    assert page.next_after == page.last_seq
    assert [event.kind for one in lake.client.events.pages(before, kinds=["TableCreated"]) for event in one.events] == [
        "TableCreated"
    ]


def test_pages_end_at_until(lake: Lake) -> None:
    before = lake.client.events.read(limit=0).last_seq
    lake.table()
    middle = before + 2
    pages = list(lake.client.events.pages(before, until=middle, limit=1))
    assert [event.seq for page in pages for event in page.events] == [before + 1, middle]
    assert pages[-1].next_after == middle
    lake.table()
    whole = [event.seq for page in lake.client.events.pages(before, limit=3) for event in page.events]
    assert whole == sorted(set(whole))
    assert whole[-1] == lake.client.events.read(limit=0).last_seq


def test_newest_events_are_read_from_the_end(lake: Lake) -> None:
    events = lake.client.events
    lake.table()
    lake.table()
    whole = [event for page in events.pages() for event in page.events]
    assert events.newest(5) == whole[-5:]
    assert events.newest(0) == []
    of_tables = [event for event in whole if event.kind == "TableCreated"]
    assert len(of_tables) >= 2
    assert events.newest(2, kinds=["TableCreated"]) == of_tables[-2:]
    assert events.newest(len(whole) + 1) == whole
    assert events.newest(3, kinds=["NothingOfThatKind"]) == []


def test_rare_newest_events_are_found_in_doubling_ranges(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEFAULT_LIMIT", 1)
    events = lake.client.events
    lake.table()
    whole = [event for page in events.pages(limit=100) for event in page.events]
    rare = [event for event in whole if event.kind == "BucketCreated"]
    assert events.newest(len(rare), kinds=["BucketCreated"]) == rare
    assert events.newest(3) == whole[-3:]


def test_reader_resumes_after_an_event_id(lake: Lake) -> None:
    before = lake.client.events.read(limit=0)
    lake.table()
    first = lake.client.events.read(before.last_seq, limit=1)
    (event,) = first.events
    assert event.id == first.next_cursor == f"evt_{first.deployment}_{event.seq}"
    rest = lake.client.events.read(event.seq).events
    assert lake.client.events.read(event.id).events == rest
    assert [event for page in lake.client.events.pages(event.id, limit=2) for event in page.events] == rest
    assert list(islice(lake.client.events.follow(event.id), 2)) == rest[:2]


def test_cursor_of_another_deployment_is_rejected(lake: Lake) -> None:
    elsewhere = EventIds(new_deployment_id()).cursor(1)
    for reading in (lake.client.events.pages(elsewhere), lake.client.audit.follow(elsewhere)):
        with pytest.raises(InvalidInput, match="an event id of another deployment"):
            next(reading)


def test_follow_returns_new_events(lake: Lake) -> None:
    before = lake.client.events.read(limit=0).last_seq
    followed: list[Event] = []

    def follow() -> None:
        with LakebedClient(access=access_to(lake.server)) as client:
            followed.extend(islice(client.events.follow(before, kinds=["TableCreated"]), 2))

    following = threading.Thread(target=follow)
    following.start()
    tables = [lake.table(), lake.table()]
    following.join()
    assert [event.payload["warehouse"] for event in followed] == [table.warehouse for table in tables]


def test_audit_log_names_principal_and_change(lake: Lake, tmp_path: Path) -> None:
    before = lake.client.audit.read(limit=0).last_seq
    user = user_with_actions(lake.server, tmp_path, "lakebed:ReadAudit")
    with LakebedClient(access=access_to(lake.server, user.keys)) as auditor:
        page = auditor.audit.read(before, kinds=["UserCreated", "AccessKeyCreated", "PolicyAttached"])
        assert {(event.kind, event.payload["user"], event.payload["principal"]) for event in page.events} == {
            ("UserCreated", user.name, "root"),
            ("AccessKeyCreated", user.name, "root"),
            ("PolicyAttached", user.name, "root"),
        }
        with pytest.raises(AccessDenied, match="lakebed:ReadEvents"):
            auditor.events.read()
    lake.table()
    assert not lake.client.audit.read(page.next_after, kinds=["Table*"]).events


def test_invalid_event_filters_are_rejected(lake: Lake) -> None:
    events = lake.client.events
    with pytest.raises(InvalidInput, match="after must be an integer"):
        events.read(-1)
    with pytest.raises(InvalidInput, match="limit must be a whole number from 0 to 1000"):
        events.read(limit=1_000_000)
    with pytest.raises(InvalidInput, match="kind must be a comma-separated list"):
        events.read(kinds=["a*b"])
