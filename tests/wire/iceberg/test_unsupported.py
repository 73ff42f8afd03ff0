"""Unsupported operations are refused as the specification defines, and are not listed as endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.wire.iceberg.unsupported import UNSUPPORTED, UNSUPPORTED_IN_FEDERATION, inventory

from .lake import Lake, opened_lake


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("path", ["/lake/namespaces/ns/functions", "/lake/namespaces/ns/functions/f"])
async def test_functions_are_unsupported(lake: Lake, path: str) -> None:
    answer = await lake.call("GET", path)
    assert answer.error == (406, "UnsupportedOperationException")
    assert "Functions are not supported" in answer.document["error"]["message"]


async def test_unsigned_request_for_an_unsupported_operation_is_a_401(lake: Lake) -> None:
    answer = await lake.send("GET", "/iceberg/v1/lake/namespaces/ns/functions", keys=None)
    assert answer.error == (401, "NotAuthorizedException")


async def test_unsupported_operations_are_not_listed_as_endpoints(lake: Lake) -> None:
    listed = (await lake.call("GET", "/config")).document["endpoints"]
    assert not [endpoint for endpoint in listed if "functions" in endpoint]


def test_inventory_has_every_operation_with_its_error() -> None:
    assert [feature for feature, _, _ in inventory()] == [
        *(f"{one.feature} ({one.operation})" for one in UNSUPPORTED),
        *(feature for feature, _ in UNSUPPORTED_IN_FEDERATION),
    ]
    assert {answer for _, answer, _ in inventory()} == {"406 UnsupportedOperationException"}
