from __future__ import annotations

import pytest

from lakebed.catalog.external.storage.model import StorageProfile, decode_profile, encode_profile

from .profiles import AWS, MINIO


@pytest.mark.parametrize("profile", [AWS, MINIO, StorageProfile(allowed_kms_keys=("a", "b"), sts_unavailable=True)])
def test_profile_round_trips(profile: StorageProfile) -> None:
    assert decode_profile(encode_profile(profile)) == profile


@pytest.mark.parametrize(
    ("endpoint", "path_style", "expected"),
    [
        ("", None, False),
        ("", True, True),
        ("https://s3.example", None, True),
        ("https://s3.example", False, False),
        ("https://s3.example", True, True),
        ("http://127.0.0.1:9000", False, True),
        ("http://[::1]:9000", False, True),
    ],
)
def test_path_style_follows_the_endpoint(endpoint: str, path_style: bool | None, expected: bool) -> None:
    assert StorageProfile(endpoint=endpoint, path_style=path_style).uses_path_style is expected


def test_kms_keys_are_separated_by_use() -> None:
    profile = StorageProfile(
        current_kms_key="a", allowed_kms_keys=("a", "b"), encryption_keys=("c",), decryption_keys=("b", "d", "d")
    )
    assert profile.kms_keys == (("a", "b", "c"), ("d",))
    assert StorageProfile(encryption_keys=("c",), kms_unavailable=True).kms_keys == ((), ())


def test_server_prefers_the_internal_endpoint() -> None:
    profile = StorageProfile(endpoint="https://s3.example", endpoint_internal="https://internal.example")
    assert (profile.server_endpoint, profile.token_endpoint) == ("https://internal.example",) * 2
    assert (AWS.server_endpoint, AWS.token_endpoint) == (None, None)


def test_authority_is_that_of_the_clients_endpoint() -> None:
    assert MINIO.authority == "127.0.0.1:9000"
    assert StorageProfile(endpoint="https://S3.Example/").authority == "s3.example"
    assert AWS.authority == "s3.amazonaws.com"
