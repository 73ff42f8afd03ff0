"""Readers parse any document or reject it with a domain error."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import LakebedError
from lakebed.wire.s3 import documents
from lakebed.wire.s3.documents import (
    access,
    buckets,
    cors,
    deletion,
    lifecycle,
    multipart,
    notification,
    object_lock,
    tagging,
)

DATE = "2030-01-01T00:00:00Z"
TAG = "<Tag><Key>k</Key><Value>v</Value></Tag>"
READERS: dict[str, tuple[Callable[[bytes], object], str]] = {
    "BucketLoggingStatus": (access.read_logging, ""),
    "CORSConfiguration": (
        cors.read_cors,
        "<CORSRule><ID>i</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
        "<AllowedHeader>x-*</AllowedHeader><MaxAgeSeconds>1</MaxAgeSeconds></CORSRule>",
    ),
    "CompleteMultipartUpload": (
        multipart.read_completion,
        "<Part><PartNumber>1</PartNumber><ETag>e</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>",
    ),
    "CreateBucketConfiguration": (
        buckets.read_bucket_creation,
        f"<LocationConstraint>r</LocationConstraint><Tags>{TAG}</Tags>",
    ),
    "Delete": (
        deletion.read_deletion,
        "<Object><Key>k</Key><VersionId>v</VersionId><ETag>e</ETag><Size>1</Size>"
        f"<LastModifiedTime>{DATE}</LastModifiedTime></Object><Quiet>true</Quiet>",
    ),
    "LegalHold": (object_lock.read_legal_hold, "<Status>ON</Status>"),
    "LifecycleConfiguration": (
        partial(lifecycle.read_lifecycle, new_id=lambda: "id"),
        f"<Rule><ID>i</ID><Status>Enabled</Status><Filter><And><Prefix>p</Prefix>{TAG}"
        "<ObjectSizeGreaterThan>1</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>"
        f"<Expiration><Date>{DATE}</Date></Expiration><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
        "<NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule>",
    ),
    "NotificationConfiguration": (
        partial(notification.read_notification, new_id=lambda: "id"),
        "<QueueConfiguration><Id>i</Id><Queue>arn:lakebed:sqs:us-east-1:1:webhook</Queue>"
        "<Event>s3:ObjectCreated:Put</Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>p</Value></FilterRule>"
        "</S3Key></Filter></QueueConfiguration>",
    ),
    "ObjectLockConfiguration": (
        object_lock.read_object_lock,
        "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
        "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>",
    ),
    "OwnershipControls": (
        access.read_ownership,
        "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>",
    ),
    "PublicAccessBlockConfiguration": (
        access.read_public_access_block,
        "<BlockPublicAcls>true</BlockPublicAcls><BlockPublicPolicy>false</BlockPublicPolicy>",
    ),
    "RequestPaymentConfiguration": (access.read_request_payment, "<Payer>BucketOwner</Payer>"),
    "Retention": (object_lock.read_retention, f"<Mode>COMPLIANCE</Mode><RetainUntilDate>{DATE}</RetainUntilDate>"),
    "ServerSideEncryptionConfiguration": (
        buckets.read_encryption,
        "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>"
        "</ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true</BucketKeyEnabled></Rule>",
    ),
    "Tagging": (tagging.read_object_tagging, f"<TagSet>{TAG}</TagSet>"),
    "VersioningConfiguration": (
        buckets.read_versioning,
        "<Status>Enabled</Status><MfaDelete>Disabled</MfaDelete>",
    ),
}
WORDS = st.sampled_from(
    ["", "1", "-1", "0", "9" * 30, "true", "Enabled", "GOVERNANCE", "2030-01-01", "9999-12-31T23:59:59-23:59", "AES256"]
) | st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"], exclude_characters="&<"), max_size=6)
LEAF = re.compile(r"<(\w+)>([^<]*)</\1>")


@pytest.mark.parametrize("root", READERS)
def test_valid_document_is_parsed(root: str) -> None:
    read, content = READERS[root]
    read(f"<{root}>{content}</{root}>".encode())


@pytest.mark.parametrize("root", READERS)
@settings(max_examples=25)
@given(at=st.integers(0, 20), word=WORDS, times=st.integers(0, 2))
def test_document_with_a_changed_element_is_parsed_or_rejected(root: str, at: int, word: str, times: int) -> None:
    read, content = READERS[root]
    leaves = list(LEAF.finditer(content))
    if leaves:
        leaf = leaves[at % len(leaves)]
        content = content[: leaf.start()] + f"<{leaf[1]}>{word}</{leaf[1]}>" * times + content[leaf.end() :]
    with suppress(LakebedError):
        read(f"<{root}>{content}</{root}>".encode())


@pytest.mark.parametrize("root", READERS)
def test_document_with_an_unknown_element_is_rejected(root: str) -> None:
    read, content = READERS[root]
    body = f"<{root}>{content}</{root}>"
    for opening in re.finditer(r"<\w+>(?=<)", body):
        with pytest.raises(LakebedError):
            read(f"{body[: opening.end()]}<Unheard-Of/>{body[opening.end() :]}".encode())


def test_every_reader_is_tested() -> None:
    tested = {getattr(read, "func", read) for read, _ in READERS.values()} | {tagging.read_bucket_tagging}
    for module in pkgutil.iter_modules(documents.__path__, documents.__name__ + "."):
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            if name.startswith("read_") and name != "read_tag":
                assert getattr(loaded, name) in tested


def test_public_names_exist() -> None:
    for module in pkgutil.iter_modules(documents.__path__, documents.__name__ + "."):
        loaded = importlib.import_module(module.name)
        assert all(hasattr(loaded, name) for name in getattr(loaded, "__all__", ()))
