from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakebed.wire.s3.documents.deletion import (
    DeletedRow,
    DeletionDocument,
    FailedRow,
    ObjectToDelete,
    read_deletion,
    write_deletion,
)
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood


def test_deletion_of_the_client_is_parsed() -> None:
    body = sent(
        "DeleteObjects",
        Bucket="b",
        Delete={
            "Objects": [
                {"Key": "plain"},
                {"Key": " <&> ", "VersionId": "null"},
                {
                    "Key": "all",
                    "VersionId": "v",
                    "ETag": '"abc"',
                    "Size": 5,
                    "LastModifiedTime": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                },
            ],
            "Quiet": True,
        },
    )
    assert read_deletion(body) == DeletionDocument(
        (
            ObjectToDelete("plain"),
            ObjectToDelete(" <&> ", "null"),
            ObjectToDelete("all", "v", "abc", 5, 1767323045000),
        ),
        is_quiet=True,
    )


def test_deletion_is_not_quiet_by_default() -> None:
    body = b"<Delete><Object><Key>k</Key><VersionId></VersionId></Object></Delete>"
    assert read_deletion(body) == DeletionDocument((ObjectToDelete("k"),))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<Quiet>true</Quiet>",
        "<Object></Object>",
        "<Object><Key></Key></Object>",
        "<Object><VersionId>v</VersionId></Object>",
        "<Object><Key>k</Key><Key>j</Key></Object>",
        "<Object><Key>k</Key><Version>v</Version></Object>",
        "<Object><Key>k</Key><Size>big</Size></Object>",
        "<Object><Key>k</Key><LastModifiedTime>then</LastModifiedTime></Object>",
        "<Object><Key>k</Key></Object><Quiet>maybe</Quiet>",
        "<Object><Key>k</Key></Object>" * 1001,
    ],
)
def test_invalid_deletion_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_deletion(f"<Delete>{content}</Delete>".encode())


def test_a_thousand_keys_are_accepted() -> None:
    assert len(read_deletion(b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1000 + b"</Delete>").objects) == 1000


def test_client_parses_deletion_results() -> None:
    body = write_deletion(
        [
            DeletedRow("a&b"),
            DeletedRow("marked", None, True, "m1"),
            DeletedRow("version", "v1"),
        ],
        [FailedRow("kept", "v2", "AccessDenied", "it is <locked>"), FailedRow("other", None, "InternalError", "")],
    )
    assert understood("DeleteObjects", body) == {
        "Deleted": [
            {"Key": "a&b"},
            {"Key": "marked", "DeleteMarker": True, "DeleteMarkerVersionId": "m1"},
            {"Key": "version", "VersionId": "v1"},
        ],
        "Errors": [
            {"Key": "kept", "VersionId": "v2", "Code": "AccessDenied", "Message": "it is <locked>"},
            {"Key": "other", "Code": "InternalError", "Message": ""},
        ],
    }
    assert understood("DeleteObjects", write_deletion([], [])) == {}
