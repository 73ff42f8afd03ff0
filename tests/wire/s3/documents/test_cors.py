from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.objects.config.cors import CorsConfiguration, CorsRule
from lakebed.wire.s3.documents.cors import read_cors, write_cors
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood

RULES = [
    {
        "ID": "web",
        "AllowedHeaders": ["x-amz-*"],
        "AllowedMethods": ["GET", "PUT"],
        "AllowedOrigins": ["https://*.example.org", "http://localhost"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 60,
    },
    {"AllowedMethods": ["HEAD"], "AllowedOrigins": ["*"]},
]


def test_cors_rules_round_trip() -> None:
    config = read_cors(sent("PutBucketCors", Bucket="b", CORSConfiguration={"CORSRules": RULES}))
    assert config == CorsConfiguration(
        (
            CorsRule(("https://*.example.org", "http://localhost"), ("GET", "PUT"), ("x-amz-*",), ("ETag",), 60, "web"),
            CorsRule(("*",), ("HEAD",)),
        )
    )
    assert understood("GetBucketCors", write_cors(config)) == {"CORSRules": RULES}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<CORSRule/>",
        "<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>",
        "<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>",
        "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><Other/></CORSRule>",
    ],
)
def test_invalid_cors_configuration_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_cors(f"<CORSConfiguration>{content}</CORSConfiguration>".encode())


def test_unsupported_method_is_an_invalid_argument() -> None:
    rule = {"AllowedMethods": ["PATCH"], "AllowedOrigins": ["*"]}
    with pytest.raises(InvalidInput, match="method is PATCH") as error:
        read_cors(sent("PutBucketCors", Bucket="b", CORSConfiguration={"CORSRules": [rule]}))
    assert not isinstance(error.value, MalformedDocument)
