from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.external.storage.model import StorageProfile
from lakebed.catalog.external.storage.validation import check_profile
from lakebed.core.errors import InvalidInput
from lakebed.net.hosts import AllowedHosts

from .profiles import AWS, MINIO

HOSTS = AllowedHosts(["127.0.0.1:9000", "*.store.example"], setting="external_storage.hosts")
REMOTE = StorageProfile(endpoint="https://s3.store.example", credentials="x")


@pytest.mark.parametrize("profile", [MINIO, AWS, REMOTE])
def test_valid_profiles_are_accepted(profile: StorageProfile) -> None:
    check_profile(profile, HOSTS, allow_http=False)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"endpoint": "https://169.254.169.254"}, "endpoint"),
        ({"endpoint": "https://store.example"}, "endpoint"),
        ({"endpoint": "https://s3.store.example.evil.example"}, "endpoint"),
        ({"endpoint": "ftp://s3.store.example"}, "endpoint"),
        ({"endpoint": "https://user:secret@s3.store.example"}, "endpoint"),
        ({"endpoint": "https://s3.store.example/path"}, "endpoint"),
        ({"endpoint": "https://s3.store.example?x=1"}, "endpoint"),
        ({"endpoint": "http://s3.store.example"}, "endpoint"),
        ({"endpoint_internal": "https://10.0.0.1"}, "endpointInternal"),
        ({"sts_endpoint": "https://sts.example"}, "stsEndpoint"),
        ({"region": "EU WEST"}, "region"),
        ({"role_arn": "role/x"}, "roleArn"),
        ({"external_id": "x y", "role_arn": AWS.role_arn}, "externalId"),
        ({"external_id": "xyz"}, "externalId"),
        ({"user_arn": "someone"}, "userArn"),
        ({"current_kms_key": "key"}, "currentKmsKey"),
        ({"allowed_kms_keys": ("key",)}, "allowedKmsKeys"),
        ({"allowed_kms_keys": ("arn:aws:kms:::k",) * 17}, "allowedKmsKeys"),
        ({"encryption_keys": ("key",)}, "encryptionKeys"),
        ({"decryption_keys": ("arn:aws:kms:::k",) * 17}, "decryptionKeys"),
        ({"credentials": "../x"}, "storageName"),
        ({"sts_unavailable": True, "role_arn": AWS.role_arn}, "stsUnavailable"),
    ],
)
def test_invalid_field_is_named(changes: dict[str, object], argument: str) -> None:
    profile = msgspec.structs.replace(REMOTE, **changes)
    with pytest.raises(InvalidInput) as caught:
        check_profile(profile, HOSTS, allow_http=False)
    assert caught.value.argument == argument


def test_internal_endpoint_requires_one_for_clients() -> None:
    profile = msgspec.structs.replace(AWS, endpoint_internal="https://s3.store.example")
    with pytest.raises(InvalidInput, match="endpointInternal requires endpoint"):
        check_profile(profile, HOSTS, allow_http=False)


def test_bucket_of_aws_requires_a_region() -> None:
    with pytest.raises(InvalidInput, match="region is required"):
        check_profile(msgspec.structs.replace(AWS, region=""), HOSTS, allow_http=False)


def test_plain_http_to_another_machine_requires_a_setting() -> None:
    plain = msgspec.structs.replace(REMOTE, endpoint="http://s3.store.example")
    with pytest.raises(InvalidInput, match=r"external_storage\.allow_http"):
        check_profile(plain, HOSTS, allow_http=False)
    check_profile(plain, HOSTS, allow_http=True)
