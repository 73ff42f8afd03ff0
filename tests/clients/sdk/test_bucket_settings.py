"""Bucket configurations: tags, lifecycle, CORS, encryption and public access read back as they were put."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.clients.boto import refused
from tests.clients.plain_http import fetch

pytestmark = pytest.mark.integration

LIFECYCLE = [
    {
        "ID": "old logs",
        "Status": "Enabled",
        "Filter": {"Prefix": "logs/"},
        "Expiration": {"Days": 30},
    },
    {
        "ID": "broken uploads",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
    },
    {
        "ID": "temporary",
        "Status": "Disabled",
        "Filter": {"And": {"Prefix": "tmp/", "Tags": [{"Key": "keep", "Value": "no"}], "ObjectSizeGreaterThan": 500}},
        "Expiration": {"Date": datetime(2030, 1, 1, tzinfo=UTC)},
    },
    {
        "ID": "old versions",
        "Status": "Enabled",
        "Filter": {"Prefix": "data/"},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 10, "NewerNoncurrentVersions": 3},
    },
]

CORS = [
    {
        "AllowedOrigins": ["https://*.example.com"],
        "AllowedMethods": ["GET", "PUT"],
        "AllowedHeaders": ["x-amz-*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 600,
    },
    {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]},
]


def test_lifecycle_is_read_back(s3: Any, bucket: str) -> None:
    with refused("NoSuchLifecycleConfiguration", 404):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": LIFECYCLE})
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == LIFECYCLE
    s3.delete_bucket_lifecycle(Bucket=bucket)
    with refused("NoSuchLifecycleConfiguration", 404):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_object_matching_a_rule_has_an_expiration_header(s3: Any, bucket: str) -> None:
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": LIFECYCLE})
    put = s3.put_object(Bucket=bucket, Key="logs/1", Body=b"1")
    assert 'rule-id="old%20logs"' in put["Expiration"]
    assert s3.head_object(Bucket=bucket, Key="logs/1")["Expiration"] == put["Expiration"]
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="other", Body=b"1")


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([{**LIFECYCLE[0], "ID": "x" * 256}], "InvalidArgument"),
        ([LIFECYCLE[0], LIFECYCLE[0]], "InvalidArgument"),
        ([{**LIFECYCLE[0], "Status": "enabled"}], "MalformedXML"),
        ([{**LIFECYCLE[0], "Expiration": {"Days": 0}}], "InvalidArgument"),
    ],
    ids=["long id", "same id twice", "unknown status", "zero days"],
)
def test_invalid_lifecycle_is_refused(s3: Any, bucket: str, rules: list[Any], code: str) -> None:
    with refused(code, 400):
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    with refused("NoSuchLifecycleConfiguration", 404):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_cors_is_read_back(s3: Any, bucket: str) -> None:
    with refused("NoSuchCORSConfiguration", 404):
        s3.get_bucket_cors(Bucket=bucket)
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": CORS})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == CORS
    s3.delete_bucket_cors(Bucket=bucket)
    with refused("NoSuchCORSConfiguration", 404):
        s3.get_bucket_cors(Bucket=bucket)


def test_cors_preflight_is_allowed_if_a_rule_matches(s3: Any, bucket: str) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": CORS[:1]})
    link = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    preflight_headers = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "PUT"}
    preflight = fetch("OPTIONS", link, headers={**preflight_headers, "Access-Control-Request-Headers": "x-amz-date"})
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "PUT" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-max-age"] == "600"
    assert fetch("OPTIONS", link, headers={**preflight_headers, "Origin": "https://example.org"}).status == 403
    answer = fetch("PUT", link, headers={"Origin": "https://app.example.com"}, body=b"1")
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    assert answer.headers["access-control-expose-headers"] == "ETag"
    stranger = fetch("PUT", link, headers={"Origin": "https://example.org"}, body=b"1")
    assert stranger.status == 200
    assert "access-control-allow-origin" not in stranger.headers


def test_bucket_tags_are_read_back(s3: Any, bucket: str) -> None:
    with refused("NoSuchTagSet", 404):
        s3.get_bucket_tagging(Bucket=bucket)
    tags = [{"Key": "team", "Value": "data"}, {"Key": "Ünï code", "Value": "a+b=c/d:e@f"}]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    s3.delete_bucket_tagging(Bucket=bucket)
    with refused("NoSuchTagSet", 404):
        s3.get_bucket_tagging(Bucket=bucket)


def test_public_access_block_is_read_back(s3: Any, bucket: str) -> None:
    block = {
        "BlockPublicAcls": True,
        "IgnorePublicAcls": True,
        "BlockPublicPolicy": True,
        "RestrictPublicBuckets": False,
    }
    with refused("NoSuchPublicAccessBlockConfiguration", 404):
        s3.get_public_access_block(Bucket=bucket)
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == block
    s3.delete_public_access_block(Bucket=bucket)
    with refused("NoSuchPublicAccessBlockConfiguration", 404):
        s3.get_public_access_block(Bucket=bucket)


def test_unsupported_configurations_return_not_implemented(s3: Any, bucket: str) -> None:
    website = {"IndexDocument": {"Suffix": "index.html"}}
    with refused("NotImplemented", 501):
        s3.put_bucket_website(Bucket=bucket, WebsiteConfiguration=website)
    with refused("NoSuchWebsiteConfiguration", 404):
        s3.get_bucket_website(Bucket=bucket)
