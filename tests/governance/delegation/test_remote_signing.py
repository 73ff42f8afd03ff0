"""Remote signing: which requests are signed, and which of their headers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import AccessDenied, InvalidInput
from lakebed.governance.delegation.remote_signing import (
    UNSIGNED_PAYLOAD,
    UNSIGNED_TRAILER,
    AffectedKeys,
    SigningRequest,
    affected_keys,
    check_within,
    returned_headers,
    signed_headers,
)

KEY = "t/data/f.parquet"


class DirectoryT:
    """The table directory `t/`."""

    def contains(self, key: str) -> bool:
        return key.startswith("t/")

    def contains_directory(self, prefix: str) -> bool:
        return prefix.startswith("t/") and prefix.endswith("/")


def call(method: str, key: str = KEY, query: Mapping[str, str] | None = None, **more: object) -> SigningRequest:
    return SigningRequest(method, "lake", key, query or {}, **more)  # type: ignore[arg-type]  # checked where it is used


@pytest.mark.parametrize(
    ("signing_request", "writes"),
    [
        (call("GET"), False),
        (call("GET", query={"x-id": "GetObject", "versionId": "v1"}), False),
        (call("HEAD"), False),
        (call("PUT"), True),
        (call("PUT", query={"partNumber": "1", "uploadId": "u"}), True),
        (call("POST", query={"uploads": ""}), True),
        (call("POST", query={"uploadId": "u"}), True),
        (call("DELETE"), True),
        (call("DELETE", query={"uploadId": "u"}), True),
        (call("GET", query={"uploadId": "u"}), True),
    ],
)
def test_affected_key_of_object_requests(signing_request: SigningRequest, writes: bool) -> None:
    assert affected_keys(signing_request) == AffectedKeys((KEY,), None, writes)


@pytest.mark.parametrize(
    ("query", "reach"),
    [
        ({"list-type": "2", "prefix": "t/data/"}, AffectedKeys((), "t/data/", False)),
        ({"prefix": "t/", "delimiter": "/", "marker": "t/a", "x-id": "ListObjects"}, AffectedKeys((), "t/", False)),
        ({"list-type": "2"}, AffectedKeys((), "", False)),
        ({"uploads": "", "prefix": "t/"}, AffectedKeys((), "t/", True)),
    ],
)
def test_affected_prefix_of_listings(query: dict[str, str], reach: AffectedKeys) -> None:
    assert affected_keys(call("GET", "", query)) == reach


def test_affected_keys_of_a_batch_delete() -> None:
    signing_request = call("POST", "", {"delete": ""}, batch=("t/a", "t/b"))
    assert affected_keys(signing_request) == AffectedKeys(("t/a", "t/b"), None, True)
    with pytest.raises(InvalidInput, match="the body with the keys to delete is missing"):
        affected_keys(call("POST", "", {"delete": ""}))


def test_affected_keys_of_a_copy_include_its_source() -> None:
    assert affected_keys(call("PUT", copy_source=("lake", "u/secret"))).keys == (KEY, "u/secret")
    with pytest.raises(AccessDenied, match="another bucket"):
        affected_keys(call("PUT", copy_source=("vault", "t/secret")))


@pytest.mark.parametrize(
    "refused",
    [
        *(call(method) for method in ("PATCH", "OPTIONS", "POST", "get", "")),
        *(call("GET", query={name: ""}) for name in ("acl", "tagging", "retention", "torrent", "attributes")),
        *(call("PUT", query={name: ""}) for name in ("acl", "tagging", "retention", "legal-hold")),
        call("DELETE", query={"versionId": "v1"}),
        call("POST", query={"select": "", "select-type": "2"}),
        call("POST", query={"restore": ""}),
        call("GET", query={"X-Amz-Signature": "0"}),
        *(call(method, "") for method in ("PUT", "DELETE", "HEAD", "POST")),
        *(call("GET", "", {name: "", "prefix": "t/"}) for name in ("policy", "versions", "location", "acl")),
        call("POST", "", {"delete": "", "policy": ""}, batch=("t/a",)),
    ],
)
def test_other_requests_are_not_signed(refused: SigningRequest) -> None:
    with pytest.raises(InvalidInput):
        affected_keys(refused)


def test_every_key_must_be_in_a_directory() -> None:
    check_within(AffectedKeys(("t/a", "t/b/c"), None, True), DirectoryT(), may_write=True)
    for outside in ("t", "t10/a", "u/a", "", "t/../u/a", "t/./a"):
        with pytest.raises(AccessDenied, match="not in a directory"):
            check_within(AffectedKeys(("t/a", outside), None, True), DirectoryT(), may_write=True)


def test_reader_cannot_have_a_write_signed() -> None:
    check_within(AffectedKeys((KEY,), None, False), DirectoryT(), may_write=False)
    with pytest.raises(AccessDenied, match="can read the table's files but not change them"):
        check_within(AffectedKeys((KEY,), None, True), DirectoryT(), may_write=False)


@pytest.mark.parametrize("prefix", ["", "t", "t1", "t10/", "u/", "t/dat"])
def test_listed_prefix_must_be_a_directory(prefix: str) -> None:
    """`t` also matches `t10`."""
    check_within(AffectedKeys((), "t/data/", False), DirectoryT(), may_write=False)
    with pytest.raises(AccessDenied, match="not a directory"):
        check_within(AffectedKeys((), prefix, False), DirectoryT(), may_write=False)


def test_only_required_headers_are_signed() -> None:
    sent = {
        "Range": ["bytes=0-7"],
        "X-Amz-Date": ["20200101T000000Z"],
        "amz-sdk-invocation-id": ["1"],
        "amz-sdk-retry": ["0/0"],
        "User-Agent": ["an engine"],
        "x-amz-checksum-mode": ["ENABLED"],
        "Content-MD5": ["abc="],
        "Authorization": ["theirs"],
        "X-Amz-Security-Token": ["theirs"],
        "Host": ["elsewhere"],
    }
    assert signed_headers(sent) == {
        "x-amz-checksum-mode": "ENABLED",
        "content-md5": "abc=",
        "x-amz-content-sha256": UNSIGNED_PAYLOAD,
    }
    returned = returned_headers(sent)
    assert returned["Range"] == ["bytes=0-7"]
    assert {name.lower() for name in returned} == {name.lower() for name in sent} - {
        "authorization",
        "host",
        "x-amz-date",
        "x-amz-security-token",
    }


@pytest.mark.parametrize(
    ("headers", "expected_hash"),
    [
        ({}, UNSIGNED_PAYLOAD),
        ({"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]}, UNSIGNED_PAYLOAD),
        ({"X-Amz-Content-SHA256": ["0" * 64]}, "0" * 64),
        ({"x-amz-trailer": ["x-amz-checksum-crc32"]}, UNSIGNED_TRAILER),
        ({"x-amz-content-sha256": [UNSIGNED_TRAILER]}, UNSIGNED_TRAILER),
    ],
)
def test_payload_is_unsigned_unless_the_client_sends_its_hash(
    headers: dict[str, list[str]], expected_hash: str
) -> None:
    assert signed_headers(headers)["x-amz-content-sha256"] == expected_hash


def test_body_signed_in_chunks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="signed in chunks"):
        signed_headers({"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]})


@given(
    st.dictionaries(
        st.sampled_from(["x-amz-meta-a", "X-Amz-Acl", "Range", "content-md5", "X-AMZ-DATE", "Accept"]),
        st.lists(st.text("ab ,", min_size=1), min_size=1, max_size=2),
    )
)
def test_all_headers_that_s3_requires_are_signed(headers: dict[str, list[str]]) -> None:
    signed = signed_headers(headers)
    for name in returned_headers(headers):
        if name.lower().startswith("x-amz-"):
            assert signed[name.lower()] == ",".join(headers[name])
