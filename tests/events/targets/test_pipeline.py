from __future__ import annotations

import dataclasses

import msgspec
import pytest

from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.events.forms import Form, render
from lakebed.events.targets.pipeline import ArrivedFile, PipelineTarget, PipelineTargetSettings, pipeline_type
from lakebed.events.targets.seam import EventMessage
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from lakebed.objects.events import ObjectEvent
from tests.events.made import IDS

SETTINGS = PipelineTargetSettings(source="landing/in/", table="lake.raw.sales", format="csv")


def told(key: str = "in/2026 Q1/ü.csv", kind: str = "ObjectCreated:Put", form: Form = Form.S3) -> EventMessage:
    """An event as rules have it sent."""
    payload = ObjectEvent(bucket="landing", key=key, size=12, etag="abc", version="v1")
    entry = OutboxEntry(7, OutboxEvent(kind, f"landing/{key}", msgspec.msgpack.encode(payload), 5, ""))
    return render(entry, form, "rule", region="us-east-1", ids=IDS)


class Noted:
    """Remembers what arrived."""

    def __init__(self) -> None:
        self.files: list[ArrivedFile] = []
        self.fails = False

    async def __call__(self, file: ArrivedFile) -> None:
        if self.fails:
            raise Unavailable("the store is away")
        self.files.append(file)


async def test_a_file_that_was_written_is_noted_with_what_it_was_then() -> None:
    noted = Noted()
    target = pipeline_type(noted).make(SETTINGS)
    await target.check()
    await target.send(told())
    await target.close()
    key = "landing/in/2026 Q1/ü.csv"
    assert noted.files == [ArrivedFile("lake", ("raw",), "sales", 7, key, "v1", "abc", 12, "csv")]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (told(kind="ObjectRemoved:Delete"), "not an upload"),
        (told("elsewhere/a.csv"), "outside the target.s source"),
        (told(form=Form.LAKEBED), "in the form s3"),
        (dataclasses.replace(told(), body=b"noise"), "in the form s3"),
        (dataclasses.replace(told(), key="landing/in/other"), "another file"),
    ],
)
async def test_what_tells_of_no_file_to_be_added_is_for_somebody_to_look_at(message: EventMessage, why: str) -> None:
    noted = Noted()
    with pytest.raises(Undeliverable, match=why):
        await PipelineTarget(SETTINGS, noted).send(message)
    assert noted.files == []


async def test_a_store_that_is_away_is_tried_again() -> None:
    noted = Noted()
    noted.fails = True
    with pytest.raises(Unavailable):
        await PipelineTarget(SETTINGS, noted).send(told())


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"source": "landing"}, "source"),
        ({"source": "/in/"}, "source"),
        ({"table": "sales"}, "table"),
        ({"table": "lake..sales"}, "table"),
        ({"format": "xml"}, "format"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(change: dict[str, str], argument: str) -> None:
    SETTINGS.validate()
    with pytest.raises(InvalidInput) as refused:
        msgspec.structs.replace(SETTINGS, **change).validate()
    assert refused.value.argument == argument
