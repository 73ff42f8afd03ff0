"""Authenticated callers without permission are denied before their document is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import Lake, allow, opened_lake

BUCKET = "plain"
GARBAGE = b"<<<"

REQUESTS = [
    ("PUT", "/another"),
    *(
        ("PUT", f"/{BUCKET}?{name}")
        for name in (
            "tagging",
            "versioning",
            "lifecycle",
            "cors",
            "encryption",
            "publicAccessBlock",
            "ownershipControls",
            "requestPayment",
            "logging",
            "notification",
            "object-lock",
            "policy",
        )
    ),
    *(("PUT", f"/{BUCKET}/key?{name}") for name in ("tagging", "retention", "legal-hold")),
    ("POST", f"/{BUCKET}/key?uploadId=x"),
]


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        await opened.store.bucket(BUCKET)
        await opened.store.put(BUCKET, "key", b"bytes")
        yield opened


@pytest.fixture
async def reader(lake: Lake) -> Keys:
    """A user with permission to read only."""
    return await lake.user("reader", allow("s3:Get*", "s3:List*"))


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_caller_without_permission_is_denied_before_the_document_is_read(
    lake: Lake, reader: Keys, method: str, path: str
) -> None:
    denied = await lake.send(method, path, GARBAGE, keys=reader)
    assert (denied.status, b"<Code>AccessDenied</Code>" in denied.body) == (403, True)
    malformed = await lake.send(method, path, GARBAGE)
    assert malformed.status == 400
    assert b"<Code>AccessDenied</Code>" not in malformed.body


async def test_permission_for_another_key_does_not_apply(lake: Lake) -> None:
    keys = await lake.user("tagger", allow("s3:PutObjectTagging", resource=f"arn:aws:s3:::{BUCKET}/mine/*"))
    assert (await lake.send("PUT", f"/{BUCKET}/key?tagging", GARBAGE, keys=keys)).status == 403
    assert (await lake.send("PUT", f"/{BUCKET}/mine/key?tagging", GARBAGE, keys=keys)).status == 400


async def test_tags_are_set_if_a_condition_on_them_holds(lake: Lake) -> None:
    condition = {"StringEquals": {"s3:RequestObjectTag/team": "blue"}}
    keys = await lake.user("tagger", allow("s3:PutObjectTagging") | {"Condition": condition})

    def tagged(team: str) -> bytes:
        return f"<Tagging><TagSet><Tag><Key>team</Key><Value>{team}</Value></Tag></TagSet></Tagging>".encode()

    assert (await lake.send("PUT", f"/{BUCKET}/key?tagging", tagged("blue"), keys=keys)).status == 200
    assert (await lake.send("PUT", f"/{BUCKET}/key?tagging", tagged("red"), keys=keys)).status == 403


async def test_deletion_without_permission_gets_an_error_per_key(lake: Lake, reader: Keys) -> None:
    body = b"<Delete><Object><Key>key</Key></Object></Delete>"
    response = await lake.send("POST", f"/{BUCKET}?delete", body, keys=reader)
    assert (response.status, b"<Code>AccessDenied</Code>" in response.body) == (200, True)
    assert (await lake.send("POST", "/absent?delete", GARBAGE, keys=reader)).status == 404
