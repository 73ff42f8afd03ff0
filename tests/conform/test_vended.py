from __future__ import annotations

from typing import Any

import pytest

from lakebed.conform.expectations import NotConforming
from lakebed.conform.vended import read_credentials

LOCATION = "s3://lake/tables/a b"
KEYS = {"s3.access-key-id": "TEMP", "s3.secret-access-key": "hidden", "s3.session-token": "token"}


def response(*credentials: dict[str, Any]) -> dict[str, Any]:
    return {"config": {}, "storage-credentials": list(credentials)}


@pytest.mark.parametrize("prefix", [LOCATION, LOCATION + "/", "s3://lake/tables/a%20b/"])
def test_first_complete_credential_is_used(prefix: str) -> None:
    incomplete = {"prefix": "s3://lake/", "config": {"s3.access-key-id": "INCOMPLETE"}}
    keys = read_credentials(response(incomplete, {"prefix": prefix, "config": KEYS}), "lake", LOCATION)
    assert (keys.access_key, keys.prefix) == ("TEMP", prefix)
    assert "hidden" not in repr(keys)


@pytest.mark.parametrize("prefix", ["s3://lake/", "s3://lake/tables", "s3://lake/tables/a b/c", ""])
def test_credential_with_a_different_prefix_is_rejected(prefix: str) -> None:
    with pytest.raises(NotConforming, match="location"):
        read_credentials(response({"prefix": prefix, "config": KEYS}), "lake", LOCATION)


def test_table_outside_the_bucket_is_rejected() -> None:
    with pytest.raises(NotConforming, match="location"):
        read_credentials(response({"prefix": LOCATION, "config": KEYS}), "other", LOCATION)


@pytest.mark.parametrize("missing", KEYS)
def test_every_key_is_required(missing: str) -> None:
    config = {name: value for name, value in KEYS.items() if name != missing}
    with pytest.raises(NotConforming, match="no storage credential"):
        read_credentials(response({"prefix": LOCATION, "config": config}), "lake", LOCATION)


def test_response_without_credentials_is_rejected() -> None:
    with pytest.raises(NotConforming):
        read_credentials({"config": {}}, "lake", LOCATION)
