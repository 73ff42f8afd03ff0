from __future__ import annotations

from typing import Any

import pytest

from lakebed.conform.expectations import NotConforming
from lakebed.conform.vended import read_keys

LOCATION = "s3://lake/tables/a b"
KEYS = {"s3.access-key-id": "TEMP", "s3.secret-access-key": "hidden", "s3.session-token": "token"}


def answer(*credentials: dict[str, Any]) -> dict[str, Any]:
    return {"config": {}, "storage-credentials": list(credentials)}


@pytest.mark.parametrize("prefix", [LOCATION, LOCATION + "/", "s3://lake/tables/a%20b/"])
def test_first_credential_with_all_keys_is_taken(prefix: str) -> None:
    incomplete = {"prefix": "s3://lake/", "config": {"s3.access-key-id": "NOBODY"}}
    keys = read_keys(answer(incomplete, {"prefix": prefix, "config": KEYS}), "lake", LOCATION)
    assert (keys.access_key, keys.prefix) == ("TEMP", prefix)
    assert "hidden" not in repr(keys)


@pytest.mark.parametrize("prefix", ["s3://lake/", "s3://lake/tables", "s3://lake/tables/a b/c", ""])
def test_keys_are_for_the_table_and_nothing_else(prefix: str) -> None:
    with pytest.raises(NotConforming, match="location"):
        read_keys(answer({"prefix": prefix, "config": KEYS}), "lake", LOCATION)


def test_table_is_in_the_bucket_of_the_run() -> None:
    with pytest.raises(NotConforming, match="location"):
        read_keys(answer({"prefix": LOCATION, "config": KEYS}), "other", LOCATION)


@pytest.mark.parametrize("missing", KEYS)
def test_every_key_is_needed(missing: str) -> None:
    config = {name: value for name, value in KEYS.items() if name != missing}
    with pytest.raises(NotConforming, match="no storage credential"):
        read_keys(answer({"prefix": LOCATION, "config": config}), "lake", LOCATION)


def test_answer_without_credentials_is_refused() -> None:
    with pytest.raises(NotConforming):
        read_keys({"config": {}}, "lake", LOCATION)
