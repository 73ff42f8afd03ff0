"""Requests that are signed for others: which, for what, and what of them."""

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


class InT:
    """The directory `t/`."""

    def holds(self, key: str) -> bool:
        return key.startswith("t/")

    def holds_directory(self, prefix: str) -> bool:
        return prefix.startswith("t/") and prefix.endswith("/")


def call(method: str, key: str = KEY, query: Mapping[str, str] | None = None, **more: object) -> SigningRequest:
    return SigningRequest(method, "lake", key, query or {}, **more)  # type: ignore[arg-type]  # checked where it is used


@pytest.mark.parametrize(
    ("asked", "writes"),
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
def test_requests_for_one_key_read_it_or_write_it(asked: SigningRequest, writes: bool) -> None:
    assert affected_keys(asked) == AffectedKeys((KEY,), None, writes)


@pytest.mark.parametrize(
    ("query", "reach"),
    [
        ({"list-type": "2", "prefix": "t/data/"}, AffectedKeys((), "t/data/", False)),
        ({"prefix": "t/", "delimiter": "/", "marker": "t/a", "x-id": "ListObjects"}, AffectedKeys((), "t/", False)),
        ({"list-type": "2"}, AffectedKeys((), "", False)),
        ({"uploads": "", "prefix": "t/"}, AffectedKeys((), "t/", True)),
    ],
)
def test_listings_reach_all_keys_of_their_prefix(query: dict[str, str], reach: AffectedKeys) -> None:
    assert affected_keys(call("GET", "", query)) == reach


def test_deletion_of_many_reaches_each_of_them() -> None:
    asked = call("POST", "", {"delete": ""}, batch=("t/a", "t/b"))
    assert affected_keys(asked) == AffectedKeys(("t/a", "t/b"), None, True)
    with pytest.raises(InvalidInput, match="the body with the keys to delete is missing"):
        affected_keys(call("POST", "", {"delete": ""}))


def test_copy_reaches_its_source() -> None:
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


def test_every_key_has_to_be_inside() -> None:
    check_within(AffectedKeys(("t/a", "t/b/c"), None, True), InT(), may_write=True)
    for outside in ("t", "t10/a", "u/a", "", "t/../u/a", "t/./a"):
        with pytest.raises(AccessDenied, match="not in a directory"):
            check_within(AffectedKeys(("t/a", outside), None, True), InT(), may_write=True)


def test_who_may_read_gets_no_write_signed() -> None:
    check_within(AffectedKeys((KEY,), None, False), InT(), may_write=False)
    with pytest.raises(AccessDenied, match="can read the table's files but not change them"):
        check_within(AffectedKeys((KEY,), None, True), InT(), may_write=False)


@pytest.mark.parametrize("prefix", ["", "t", "t1", "t10/", "u/", "t/dat"])
def test_listing_is_of_a_directory_inside(prefix: str) -> None:
    """`t` would list `t10` as well."""
    check_within(AffectedKeys((), "t/data/", False), InT(), may_write=False)
    with pytest.raises(AccessDenied, match="not a directory"):
        check_within(AffectedKeys((), prefix, False), InT(), may_write=False)


def test_headers_that_change_from_one_request_to_the_next_are_not_signed() -> None:
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
    ("headers", "claim"),
    [
        ({}, UNSIGNED_PAYLOAD),
        ({"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]}, UNSIGNED_PAYLOAD),
        ({"X-Amz-Content-SHA256": ["0" * 64]}, "0" * 64),
        ({"x-amz-trailer": ["x-amz-checksum-crc32"]}, UNSIGNED_TRAILER),
        ({"x-amz-content-sha256": [UNSIGNED_TRAILER]}, UNSIGNED_TRAILER),
    ],
)
def test_body_is_unsigned_unless_the_client_says_what_it_is(headers: dict[str, list[str]], claim: str) -> None:
    assert signed_headers(headers)["x-amz-content-sha256"] == claim


def test_body_signed_in_chunks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="signed in chunks"):
        signed_headers({"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]})


@given(
    st.dictionaries(
        st.sampled_from(["x-amz-meta-a", "X-Amz-Acl", "Range", "content-md5", "X-AMZ-DATE", "Accept"]),
        st.lists(st.text("ab ,", min_size=1), min_size=1, max_size=2),
    )
)
def test_store_finds_every_header_signed_that_it_insists_on(headers: dict[str, list[str]]) -> None:
    signed = signed_headers(headers)
    for name in returned_headers(headers):
        if name.lower().startswith("x-amz-"):
            assert signed[name.lower()] == ",".join(headers[name])
