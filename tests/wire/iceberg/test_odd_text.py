"""Control characters in requests are refused before they reach the metadata store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.wire.json.paging import ListPosition
from lakebed.wire.json.request import check_text
from tests.catalog.harness import VIEW_VERSION
from tests.objects.conftest import objects_dsn
from tests.objects.stores import opened_store

from .lake import SCHEMA, Lake, wire_lake

__all__ = ["objects_dsn"]

TABLE = "/lake/namespaces/ns/tables/t"
COMMIT: dict[str, Any] = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
POINTER: dict[str, Any] = {"expected-version-token": "v", "new-metadata-location": "s3://lake/x.metadata.json"}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A metadata store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'meta.db'}"
    dsn: str = request.getfixturevalue("objects_dsn")
    return dsn


@pytest.fixture
async def lake(address: str, tmp_path: Path) -> AsyncIterator[Lake]:
    """A server with a table."""
    async with opened_store(address, "memory", tmp_path, ManualClock()) as store:
        lake = wire_lake(store)
        await lake.make_lake()
        assert (await lake.table()).status == 200
        yield lake


def view(sql: str) -> dict[str, Any]:
    version = VIEW_VERSION | {"representations": [{"type": "sql", "sql": sql, "dialect": "spark"}]}
    return {"name": "v", "schema": SCHEMA, "properties": {}, "view-version": version}


def bad(text: str) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Requests with a text in each field that reaches the store."""
    return {
        "commit-id": ("POST", TABLE, COMMIT | {"commit-id": text}),
        "idempotency-key": ("POST", TABLE, COMMIT | {"idempotency-key": text}),
        "operation": ("POST", TABLE, COMMIT | {"operation": text}),
        "writer": ("POST", TABLE, COMMIT | {"writer": text}),
        "pointer's token": ("POST", TABLE, POINTER | {"expected-version-token": text}),
        "pointer's file": ("POST", TABLE, POINTER | {"new-metadata-location": f"s3://lake/{text}"}),
        "pointer's bucket": ("POST", TABLE, POINTER | {"new-metadata-location": f"s3://{text}/x"}),
        "metadata location": ("PUT", f"{TABLE}/metadata-location", {"metadata-location": text, "version-token": "v"}),
        "version token": (
            "PUT",
            f"{TABLE}/metadata-location",
            {"metadata-location": "s3://lake/x", "version-token": text},
        ),
        "registered file": (
            "POST",
            "/lake/namespaces/ns/register",
            {"name": "u", "metadata-location": f"s3://{text}/u.metadata.json"},
        ),
        "registered name": (
            "POST",
            "/lake/namespaces/ns/register",
            {"name": text, "metadata-location": "s3://lake/u.metadata.json"},
        ),
        "table": ("POST", "/lake/namespaces/ns/tables", {"name": text, "schema": SCHEMA}),
        "location": (
            "POST",
            "/lake/namespaces/ns/tables",
            {"name": "u", "schema": SCHEMA, "location": f"s3://lake/{text}"},
        ),
        "namespace": ("POST", "/lake/namespaces", {"namespace": ["a", text]}),
        "worker": ("POST", f"{TABLE}/maintenance/worker/run", {"worker-id": text}),
        "scheduler": ("POST", f"{TABLE}/maintenance/scheduler/run", {"scheduler-id": text}),
        "tag": ("PUT", f"{TABLE}/refs/r", {"snapshot-id": 1, "type": "tag", "commit-id": text}),
    }


@pytest.mark.parametrize("text", ["a\0b", "\0", "a\x01b", "a\nb"], ids=repr)
@pytest.mark.parametrize("field", bad(""))
async def test_control_characters_in_names_and_ids_are_refused(lake: Lake, field: str, text: str) -> None:
    method, path, document = bad(text)[field]
    before = await lake.store.meta.rows("SELECT seq FROM outbox ORDER BY seq")
    assert (await lake.call(method, path, document)).error == (400, "BadRequestException")
    assert await lake.store.meta.rows("SELECT seq FROM outbox ORDER BY seq") == before
    assert (await lake.call("GET", TABLE)).status == 200


async def test_nul_is_refused_where_other_control_characters_are_allowed(lake: Lake) -> None:
    properties = {"updates": {"comment": "one\ttwo\nthree"}, "removals": []}
    assert (await lake.call("POST", "/lake/namespaces/ns/properties", properties)).status == 200
    assert (await lake.call("POST", "/lake/namespaces/ns/views", view("SELECT 1\nFROM t"))).status == 200
    properties = {"updates": {"comment": "one\0two"}, "removals": []}
    assert (await lake.call("POST", "/lake/namespaces/ns/properties", properties)).error[0] == 400
    assert (await lake.call("POST", "/lake/namespaces/ns/views", view("SELECT '\0'"))).error[0] == 400
    changed = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a\0": "1"}}]}
    assert (await lake.call("POST", TABLE, changed)).error[0] == 400
    assert (await lake.call("POST", f"{TABLE}/tasks", {"plan-task": "\0"})).error[0] == 400


async def test_escaped_backslash_before_u0000_is_allowed(lake: Lake) -> None:
    assert (await lake.call("POST", "/lake/namespaces/ns/views", view("SELECT '\\u0000'"))).status == 200


async def test_nul_in_a_forged_page_token_does_not_crash(lake: Lake) -> None:
    token = PageTokens("catalog", ListPosition).encode(ListPosition("tables lake ns", "a\0"))
    answer = await lake.call("GET", f"/lake/namespaces/ns/tables?pageToken={token}")
    assert answer.status in (200, 400)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a\\u0\0\n"é', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a\\u0\0", max_size=8), inner, max_size=3),
    max_leaves=6,
)


def has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(has_nul(key) or has_nul(one) for key, one in value.items())
    if isinstance(value, list):
        return any(map(has_nul, value))
    return isinstance(value, str) and "\0" in value


@given(json_values, st.booleans())
def test_documents_are_refused_exactly_if_a_text_has_a_nul(value: object, plain: bool) -> None:
    body = json.dumps(value, ensure_ascii=plain).encode()
    if not has_nul(value):
        check_text(body)
        return
    with pytest.raises(InvalidInput):
        check_text(body)
