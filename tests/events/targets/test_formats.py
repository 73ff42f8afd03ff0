from __future__ import annotations

import dataclasses
import json

import msgspec

from lakebed.events.targets.formats import occurred_at, records_of
from tests.contracts.targets import make_message


def test_records_of_an_s3_message_are_extracted() -> None:
    message = make_message()
    assert json.loads(msgspec.json.encode(records_of(message))) == json.loads(message.body)["Records"]


def test_document_of_another_form_is_its_own_record() -> None:
    for body in (b'{"kind": "TableCreated"}', b"[1]", b'"text"', b'{"Records": 1}'):
        message = dataclasses.replace(make_message(), body=body)
        assert json.loads(msgspec.json.encode(records_of(message))) == [json.loads(body)]


def test_event_time_has_milliseconds() -> None:
    assert occurred_at(make_message()).isoformat() == "2026-03-04T05:06:07.089000+00:00"
