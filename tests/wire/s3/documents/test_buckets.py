from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput, InvalidTag, NotSupported
from lakebed.objects.config.encryption import BucketEncryption
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning
from lakebed.wire.s3.documents.buckets import (
    BucketCreation,
    read_bucket_creation,
    read_encryption,
    read_versioning,
    write_encryption,
    write_location,
    write_versioning,
)
from lakebed.wire.s3.xml import MalformedDocument, parse_document

from .client import sent, understood


def test_bucket_creation_is_parsed_with_and_without_a_body() -> None:
    assert read_bucket_creation(b"") == BucketCreation()
    body = sent(
        "CreateBucket",
        Bucket="b",
        CreateBucketConfiguration={"LocationConstraint": "eu-west-1", "Tags": [{"Key": "a", "Value": "1"}]},
    )
    assert read_bucket_creation(body) == BucketCreation("eu-west-1", TagSet((Tag("a", "1"),)))
    assert read_bucket_creation(b"<CreateBucketConfiguration/>") == BucketCreation()


def test_directory_buckets_are_not_supported() -> None:
    body = sent(
        "CreateBucket",
        Bucket="b",
        CreateBucketConfiguration={"Bucket": {"Type": "Directory", "DataRedundancy": "SingleAvailabilityZone"}},
    )
    with pytest.raises(NotSupported, match="directory"):
        read_bucket_creation(body)


def test_invalid_bucket_creation_is_rejected() -> None:
    with pytest.raises(MalformedDocument):
        read_bucket_creation(b"<CreateBucketConfiguration><Region>r</Region></CreateBucketConfiguration>")
    tag = {"Key": "a", "Value": "1"}
    with pytest.raises(InvalidTag):
        read_bucket_creation(sent("CreateBucket", Bucket="b", CreateBucketConfiguration={"Tags": [tag, tag]}))


def test_location_is_empty_for_us_east_1() -> None:
    assert parse_document(write_location("us-east-1"), "LocationConstraint").text == ""
    assert parse_document(write_location("eu-west-1"), "LocationConstraint").text == "eu-west-1"


@pytest.mark.parametrize("versioning", [Versioning.ENABLED, Versioning.SUSPENDED])
def test_versioning_round_trips(versioning: Versioning) -> None:
    config = {"Status": versioning.value}
    body = sent("PutBucketVersioning", Bucket="b", VersioningConfiguration=config)
    assert read_versioning(body) is versioning
    assert understood("GetBucketVersioning", write_versioning(versioning)) == config


def test_versioning_of_an_unversioned_bucket_is_empty() -> None:
    assert understood("GetBucketVersioning", write_versioning(Versioning.UNVERSIONED)) == {}


def test_mfa_delete_is_rejected_unless_disabled() -> None:
    def body(mfa: str) -> bytes:
        return sent("PutBucketVersioning", Bucket="b", VersioningConfiguration={"Status": "Enabled", "MFADelete": mfa})

    assert read_versioning(body("Disabled")) is Versioning.ENABLED
    with pytest.raises(NotSupported, match="mfa"):
        read_versioning(body("Enabled"))
    with pytest.raises(MalformedDocument):
        read_versioning(body("Maybe"))


@pytest.mark.parametrize("content", ["", "<Status/>", "<Status>enabled</Status>", "<Status>Enabled</Status><Other/>"])
def test_invalid_versioning_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_versioning(f"<VersioningConfiguration>{content}</VersioningConfiguration>".encode())


def encryption_body(*rules: dict[str, object]) -> bytes:
    return sent("PutBucketEncryption", Bucket="b", ServerSideEncryptionConfiguration={"Rules": list(rules)})


AES: dict[str, object] = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}


def test_encryption_round_trips() -> None:
    rule: dict[str, object] = AES | {"BucketKeyEnabled": True}
    encryption = read_encryption(encryption_body(rule))
    assert encryption == BucketEncryption(bucket_key_enabled=True)
    response = understood("GetBucketEncryption", write_encryption(encryption))
    assert response == {"ServerSideEncryptionConfiguration": {"Rules": [rule]}}
    assert read_encryption(encryption_body(AES)) == read_encryption(encryption_body({})) == BucketEncryption()


def test_kms_keys_and_blocked_encryption_types_are_not_supported() -> None:
    with pytest.raises(NotSupported, match="aws:kms"):
        read_encryption(encryption_body({"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}))
    blocked: dict[str, object] = {"BlockedEncryptionTypes": {"EncryptionType": ["SSE-C"]}}
    with pytest.raises(NotSupported, match="BlockedEncryptionTypes"):
        read_encryption(encryption_body(AES | blocked))
    unblocked: dict[str, object] = {"BlockedEncryptionTypes": {"EncryptionType": ["NONE"]}}
    assert read_encryption(encryption_body(AES | unblocked)) == BucketEncryption()


def test_invalid_encryption_is_rejected() -> None:
    for body in (
        encryption_body(),
        encryption_body(AES, AES),
        encryption_body({"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "ROT13"}}),
        encryption_body({"ApplyServerSideEncryptionByDefault": {}}),
    ):
        with pytest.raises(MalformedDocument):
            read_encryption(body)
    with_key: dict[str, object] = {
        "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256", "KMSMasterKeyID": "k"}
    }
    with pytest.raises(InvalidInput) as error:
        read_encryption(encryption_body(with_key))
    assert error.value.argument == "KMSMasterKeyID"
