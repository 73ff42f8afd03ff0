"""Signed callers without a permission are refused before their document is read."""

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
    """Somebody who may read, and change nothing."""
    return await lake.user("reader", allow("s3:Get*", "s3:List*"))


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_a_document_is_not_looked_at_without_the_permission(
    lake: Lake, reader: Keys, method: str, path: str
) -> None:
    refused = await lake.send(method, path, GARBAGE, keys=reader)
    assert (refused.status, b"<Code>AccessDenied</Code>" in refused.body) == (403, True)
    malformed = await lake.send(method, path, GARBAGE)
    assert malformed.status == 400
    assert b"<Code>AccessDenied</Code>" not in malformed.body


async def test_a_permission_for_another_key_is_none(lake: Lake) -> None:
    keys = await lake.user("tagger", allow("s3:PutObjectTagging", resource=f"arn:aws:s3:::{BUCKET}/mine/*"))
    assert (await lake.send("PUT", f"/{BUCKET}/key?tagging", GARBAGE, keys=keys)).status == 403
    assert (await lake.send("PUT", f"/{BUCKET}/mine/key?tagging", GARBAGE, keys=keys)).status == 400


async def test_tags_that_a_condition_allows_are_set(lake: Lake) -> None:
    condition = {"StringEquals": {"s3:RequestObjectTag/team": "blue"}}
    keys = await lake.user("tagger", allow("s3:PutObjectTagging") | {"Condition": condition})

    def tagged(team: str) -> bytes:
        return f"<Tagging><TagSet><Tag><Key>team</Key><Value>{team}</Value></Tag></TagSet></Tagging>".encode()

    assert (await lake.send("PUT", f"/{BUCKET}/key?tagging", tagged("blue"), keys=keys)).status == 200
    assert (await lake.send("PUT", f"/{BUCKET}/key?tagging", tagged("red"), keys=keys)).status == 403


async def test_deletions_without_a_permission_are_answered_key_by_key(lake: Lake, reader: Keys) -> None:
    body = b"<Delete><Object><Key>key</Key></Object></Delete>"
    answer = await lake.send("POST", f"/{BUCKET}?delete", body, keys=reader)
    assert (answer.status, b"<Code>AccessDenied</Code>" in answer.body) == (200, True)
    assert (await lake.send("POST", "/absent?delete", GARBAGE, keys=reader)).status == 404
