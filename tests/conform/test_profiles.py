from __future__ import annotations

import pytest

from lakebed.conform.profiles import PROFILES, described, find_profile, resolve
from lakebed.core.errors import InvalidInput

VALUES = {
    "endpoint": "http://127.0.0.1:9000",
    "bucket": "lake",
    "region": "eu-west-1",
    "account_id": "123456789012",
    "table_bucket": "tables",
    "warehouse": "wh",
    "warehouse_name": "account_wh",
    "catalog_uri": "https://catalog.example.com/catalog",
}


@pytest.mark.parametrize(
    ("name", "uri", "warehouse", "signing_name"),
    [
        ("lakebed", "http://127.0.0.1:9000/iceberg", "lake", "s3"),
        ("lakebed-compat", "http://127.0.0.1:9000/_iceberg", "lake", "s3tables"),
        ("lakebed-vended-credentials", "http://127.0.0.1:9000/iceberg", "lake", "s3"),
        (
            "aws-s3tables",
            "https://s3tables.eu-west-1.amazonaws.com/iceberg",
            "arn:aws:s3tables:eu-west-1:123456789012:bucket/tables",
            "s3tables",
        ),
        ("minio-aistor", "http://127.0.0.1:9000/_iceberg", "wh", "s3tables"),
        ("cloudflare-r2-data-catalog", "https://catalog.example.com/catalog", "account_wh", "s3"),
        (
            "oss-tables",
            "http://127.0.0.1:9000/iceberg",
            "acs:osstables:eu-west-1:123456789012:bucket/tables",
            "osstables",
        ),
    ],
)
def test_profile_is_resolved_with_the_options(name: str, uri: str, warehouse: str, signing_name: str) -> None:
    made = resolve(find_profile(name), VALUES)
    assert (made.catalog_uri, made.warehouse, made.rest_signing_name) == (uri, warehouse, signing_name)


def test_path_and_signing_name_override_the_profile() -> None:
    made = resolve(find_profile("lakebed"), VALUES, rest_path="api/catalog/", rest_signing_name="s3tables")
    assert made.catalog_uri == "http://127.0.0.1:9000/api/catalog"
    assert made.rest_signing_name == "s3tables"


@pytest.mark.parametrize(
    ("name", "option"), [("minio-aistor", "--warehouse"), ("aws-s3tables", "--table-bucket"), ("lakebed", "--bucket")]
)
def test_missing_option_of_a_profile_is_named(name: str, option: str) -> None:
    values = {**VALUES, option.removeprefix("--").replace("-", "_"): ""}
    with pytest.raises(InvalidInput, match=option):
        resolve(find_profile(name), values)


def test_unknown_profile_is_rejected_with_a_list_of_profiles() -> None:
    with pytest.raises(InvalidInput, match="lakebed-compat"):
        find_profile("unknown")


def test_only_lakebed_profiles_run() -> None:
    assert [profile.name for profile in PROFILES.values() if profile.can_run] == [
        "lakebed",
        "lakebed-compat",
        "lakebed-vended-credentials",
    ]
    assert all(described(profile)["not_claimed"] for profile in PROFILES.values() if not profile.can_run)
