"""Invalid digests, limits and headers."""

from __future__ import annotations

import pytest

from .site import BUCKET, HEX, KEPT, Case, Site, assert_error, cases, sha256

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.usefixtures("unchanged")
@cases(
    ("hash of other bytes", 400, "XAmzContentSHA256Mismatch", lambda s: s.put(payload_hash=HEX)),
    ("hash cut short", 400, "InvalidArgument", lambda s: s.put(payload_hash="abc")),
    ("hash not hexadecimal", 400, "InvalidArgument", lambda s: s.put(payload_hash="z" * 64)),
    ("unknown kind of stream", 501, "NotImplemented", lambda s: s.put(payload_hash="STREAMING-NONSENSE")),
    (
        "stream of no stated length",
        411,
        "MissingContentLength",
        lambda s: s.put(payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ),
    (
        "stream of a length in words",
        411,
        "MissingContentLength",
        lambda s: s.put({"x-amz-decoded-content-length": "many"}, payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ),
    (
        "stream of a length of 5000 digits",
        400,
        "EntityTooLarge",
        lambda s: s.put(
            {"x-amz-decoded-content-length": "9" * 5000}, payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        ),
    ),
    (
        "stream over the limit",
        400,
        "EntityTooLarge",
        lambda s: s.put({"x-amz-decoded-content-length": "9" * 15}, payload_hash="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ),
    ("md5 malformed", 400, "InvalidDigest", lambda s: s.put({"content-md5": "nonsense"})),
    ("md5 of another length", 400, "InvalidDigest", lambda s: s.put({"content-md5": "YWJj"})),
    ("md5 not ascii", 400, "InvalidDigest", lambda s: s.put({"content-md5": "é" * 12})),
    ("md5 wrong", 400, "BadDigest", lambda s: s.put({"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="})),
    ("crc wrong", 400, "BadDigest", lambda s: s.put({"x-amz-checksum-crc32": "AAAAAA=="})),
    ("sha wrong", 400, "BadDigest", lambda s: s.put({"x-amz-checksum-sha256": sha256(b"other")})),
    ("crc malformed", 400, "InvalidRequest", lambda s: s.put({"x-amz-checksum-crc32": "nonsense"})),
    ("crc not ascii", 400, "InvalidRequest", lambda s: s.put({"x-amz-checksum-crc32": "é"})),
    (
        "two checksums",
        400,
        "InvalidRequest",
        lambda s: s.put({"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-crc32c": "AAAAAA=="}),
    ),
    ("unknown checksum", 400, "InvalidRequest", lambda s: s.put({"x-amz-sdk-checksum-algorithm": "CRC1"})),
    (
        "trailer without stream",
        400,
        "MalformedTrailerError",
        lambda s: s.put({"x-amz-trailer": "x-amz-checksum-crc32"}),
    ),
    ("metadata over 2 kib", 400, "MetadataTooLarge", lambda s: s.put({"x-amz-meta-a": "b" * 2048})),
    (
        "metadata over 2 kib in many",
        400,
        "MetadataTooLarge",
        lambda s: s.put({f"x-amz-meta-{n:03}": "b" * 8 for n in range(200)}),
    ),
    ("metadata that is not utf-8", 400, "InvalidArgument", lambda s: s.put({"x-amz-meta-a": "\udcff"})),
    ("content type that is not utf-8", 400, "InvalidArgument", lambda s: s.put({"content-type": "\udcff"})),
    ("disposition that is not utf-8", 400, "InvalidArgument", lambda s: s.put({"content-disposition": "\udcff"})),
    ("11 tags", 400, "BadRequest", lambda s: s.put({"x-amz-tagging": "&".join(f"k{n}=v" for n in range(11))})),
    ("long tag", 400, "InvalidTag", lambda s: s.put({"x-amz-tagging": f"{'k' * 129}=v"})),
    ("tags that are not utf-8", 400, "InvalidArgument", lambda s: s.put({"x-amz-tagging": "a=%FF"})),
    ("raw tags that are not utf-8", 400, "InvalidTag", lambda s: s.put({"x-amz-tagging": "a=\udcff"})),
    ("storage class", 400, "InvalidStorageClass", lambda s: s.put({"x-amz-storage-class": "NONSENSE"})),
    ("access list", 400, "AccessControlListNotSupported", lambda s: s.put({"x-amz-acl": "public-read"})),
    ("encryption", 400, "InvalidArgument", lambda s: s.put({"x-amz-server-side-encryption": "ROT13"})),
    ("lock mode alone", 400, "InvalidArgument", lambda s: s.put({"x-amz-object-lock-mode": "GOVERNANCE"})),
    (
        "lock until words",
        400,
        "InvalidArgument",
        lambda s: s.put(
            {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "the day after tomorrow"}
        ),
    ),
    ("copy from nowhere", 400, "InvalidArgument", lambda s: s.put({"x-amz-copy-source": "nonsense"}, b"")),
    ("copy of what is absent", 404, "NoSuchKey", lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/absent"}, b"")),
    ("copy of bytes that are no name", 400, "InvalidArgument", lambda s: s.put({"x-amz-copy-source": "/a/%FF"}, b"")),
    (
        "copy of a version that is not utf-8",
        400,
        "InvalidArgument",
        lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/{KEPT}?versionId=\udcff"}, b""),
    ),
    (
        "copy with an unknown directive",
        400,
        "InvalidArgument",
        lambda s: s.put({"x-amz-copy-source": f"/{BUCKET}/{KEPT}", "x-amz-metadata-directive": "EAT"}, b""),
    ),
    (
        "condition on a size in words",
        400,
        "InvalidArgument",
        lambda s: s.signed("DELETE", f"/{BUCKET}/{KEPT}", {"x-amz-if-match-size": "big"}),
    ),
    (
        "condition on a size in strange digits",
        400,
        "InvalidArgument",
        lambda s: s.signed("DELETE", f"/{BUCKET}/{KEPT}", {"x-amz-if-match-size": "²"}),
    ),
    (
        "condition on a time in words",
        400,
        "InvalidArgument",
        lambda s: s.signed("DELETE", f"/{BUCKET}/{KEPT}", {"x-amz-if-match-last-modified-time": "noon"}),
    ),
)
def test_invalid_headers_are_rejected(site: Site, case: Case) -> None:
    assert_error(site.send(case.make(site)), case.status, case.code)
