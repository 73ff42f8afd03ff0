"""Lists of federated catalogs are filtered by a decision point, as internal ones are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.settings import DecisionMode
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.governance.decision_point import DecisionPoint, ExternalAuthorizer
from tests.catalog.test_external_authorizer import showing
from tests.governance.decision_point.fakes import FakeDecisionPoint

from .test_federated_rights import on_table
from .two_lakes import CATALOG, TwoLakes, two_lakes

TABLES = "/namespaces/ns/tables"


@asynccontextmanager
async def lakes_with_decisions(folder: Path, fake: FakeDecisionPoint) -> AsyncIterator[TwoLakes]:
    """Two servers, the near one with a decision point; the far one has tables `a` to `f`."""
    clock = ManualClock()
    point = DecisionPoint(fake.post, clock, cache_seconds=0, post_batch=fake.post)
    authorizer = ExternalAuthorizer(PolicyAuthorizer(clock), point, DecisionMode.AND)
    async with two_lakes(folder, authorizer=authorizer) as lakes:
        for name in "abcdef":
            assert (await lakes.far.table(name)).status == 200
        yield lakes


async def names(lakes: TwoLakes, path: str) -> tuple[list[str], str | None]:
    listed = await lakes.call_ok("GET", path)
    return [one["name"] for one in listed["identifiers"]], listed["next-page-token"]


async def test_tables_are_filtered_by_the_decision_point(tmp_path: Path) -> None:
    fake = FakeDecisionPoint(showing(lambda name: name in "bef"))
    async with lakes_with_decisions(tmp_path, fake) as lakes:
        fake.inputs.clear()
        assert await names(lakes, TABLES) == (["b", "e", "f"], None)
        # One decision for the list, and one for all of its names.
        assert [len(query["resource"]["targets"]) for query in fake.inputs] == [1, 6]
        first = fake.inputs[1]["resource"]["targets"][0]
        assert (first["type"], first["name"]) == ("TABLE_LIKE", "a")
        assert first["parents"] == [{"type": "CATALOG", "name": CATALOG}, {"type": "NAMESPACE", "name": "ns"}]
        assert [query["action"] for query in fake.inputs] == ["s3tables:ListTables"] * 2


@pytest.mark.parametrize("listed", ["policies", "generic-tables"])
async def test_policies_and_generic_tables_are_empty_lists(tmp_path: Path, listed: str) -> None:
    async with two_lakes(tmp_path) as lakes:
        assert (await lakes.far.table()).status == 200
        base = f"/polaris/v1/{CATALOG}/namespaces"
        found = await lakes.near.send("GET", f"{base}/ns/{listed}")
        assert (found.status, found.document) == (200, {"identifiers": [], "next-page-token": None})
        assert (await lakes.near.send("GET", f"{base}/nowhere/{listed}")).error[0] == 404
        assert (await lakes.near.send("POST", f"{base}/ns/{listed}", b"{}")).error[0] == 406


async def test_empty_pages_are_skipped(tmp_path: Path) -> None:
    async with lakes_with_decisions(tmp_path, FakeDecisionPoint(showing(lambda name: name == "f"))) as lakes:
        listed, token = await names(lakes, f"{TABLES}?pageToken=&pageSize=2")
        assert (listed, token) == (["f"], None)


async def test_page_tokens_are_those_of_the_external_catalog(tmp_path: Path) -> None:
    async with lakes_with_decisions(tmp_path, FakeDecisionPoint(showing(lambda name: name in "ac"))) as lakes:
        listed, token = await names(lakes, f"{TABLES}?pageToken=&pageSize=2")
        assert listed == ["a"]
        assert token
        listed, token = await names(lakes, f"{TABLES}?pageToken={token}&pageSize=2")
        assert listed == ["c"]
        assert token
        assert await names(lakes, f"{TABLES}?pageToken={token}&pageSize=2") == ([], None)


async def test_views_and_namespaces_are_filtered_by_the_decision_point(tmp_path: Path) -> None:
    async with lakes_with_decisions(tmp_path, FakeDecisionPoint(showing(lambda name: name != "hidden"))) as lakes:
        for name in ("hidden", "open"):
            assert (await lakes.far.call("POST", "/lake/namespaces", {"namespace": ["ns", name]})).status == 200
        assert (await lakes.call_ok("GET", "/namespaces?parent=ns"))["namespaces"] == [["ns", "open"]]
        assert (await lakes.call_ok("GET", "/namespaces"))["namespaces"] == [["ns"]]
        assert await names(lakes, "/namespaces/ns/views") == ([], None)


async def test_granted_names_are_filtered_by_the_decision_point_too(tmp_path: Path) -> None:
    async with lakes_with_decisions(tmp_path, FakeDecisionPoint(showing(lambda name: name != "b"))) as lakes:
        grants = [on_table("TABLE_LIST", name) for name in "bc"]
        ann = await lakes.member("ann", *grants)
        listed = await lakes.call_ok("GET", TABLES, keys=ann)
        assert [one["name"] for one in listed["identifiers"]] == ["c"]


@pytest.mark.parametrize("path", [TABLES, "/namespaces", "/namespaces/ns/views"])
async def test_lists_fail_without_a_decision(tmp_path: Path, path: str) -> None:
    fake = FakeDecisionPoint()
    async with lakes_with_decisions(tmp_path, fake) as lakes:
        fake.is_down = True
        assert (await lakes.call("GET", path)).status == 503
