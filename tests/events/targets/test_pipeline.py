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
from tests.events.samples import IDS

SETTINGS = PipelineTargetSettings(source="landing/in/", table="lake.raw.sales", format="csv")


def upload_message(
    key: str = "in/2026 Q1/ü.csv", kind: str = "ObjectCreated:Put", form: Form = Form.S3
) -> EventMessage:
    """The message of an uploaded file."""
    payload = ObjectEvent(bucket="landing", key=key, size=12, etag="abc", version="v1")
    entry = OutboxEntry(7, OutboxEvent(kind, f"landing/{key}", msgspec.msgpack.encode(payload), 5, ""))
    return render(entry, form, "rule", region="us-east-1", ids=IDS)


class FileRegistry:
    """Records registered files."""

    def __init__(self) -> None:
        self.files: list[ArrivedFile] = []
        self.fails = False

    async def __call__(self, file: ArrivedFile) -> None:
        if self.fails:
            raise Unavailable("the store is away")
        self.files.append(file)


async def test_uploaded_file_is_registered_with_version_and_etag() -> None:
    registry = FileRegistry()
    target = pipeline_type(registry).make(SETTINGS)
    await target.check()
    await target.send(upload_message())
    await target.close()
    key = "landing/in/2026 Q1/ü.csv"
    assert registry.files == [ArrivedFile("lake", ("raw",), "sales", 7, key, "v1", "abc", 12, "csv")]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (upload_message(kind="ObjectRemoved:Delete"), "not an upload"),
        (upload_message("elsewhere/a.csv"), "outside the target's source"),
        (upload_message(form=Form.LAKEBED), "in the form s3"),
        (dataclasses.replace(upload_message(), body=b"noise"), "in the form s3"),
        (dataclasses.replace(upload_message(), key="landing/in/other"), "another file"),
    ],
)
async def test_message_without_a_matching_file_is_undeliverable(message: EventMessage, why: str) -> None:
    registry = FileRegistry()
    with pytest.raises(Undeliverable, match=why):
        await PipelineTarget(SETTINGS, registry).send(message)
    assert registry.files == []


async def test_unavailable_store_is_retryable() -> None:
    registry = FileRegistry()
    registry.fails = True
    with pytest.raises(Unavailable):
        await PipelineTarget(SETTINGS, registry).send(upload_message())


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
def test_invalid_settings_are_rejected_by_name(change: dict[str, str], argument: str) -> None:
    SETTINGS.validate()
    with pytest.raises(InvalidInput) as raised:
        msgspec.structs.replace(SETTINGS, **change).validate()
    assert raised.value.argument == argument
