"""`lakebed table-policy` and `lakebed label`, against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lakebed.client import LakebedClient
from lakebed.client.policies import namespace_target
from tests.client.conftest import Lake, access_to
from tests.fixtures.server import running_server

from .conftest import Lakebed, Outcome

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMPACTION = "system.data-compaction"
NS = ("ns",)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    data = tmp_path_factory.mktemp("asking") / "data"
    with running_server(data, workers=1) as server, LakebedClient(access=access_to(server)) as client:
        yield Lake(server, client, client._connection)


@pytest.fixture
def run_command(lake: Lake, lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> Lakebed:
    """Run a command against the server."""
    monkeypatch.setenv("LAKEBED_ENDPOINT", lake.server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lake.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lake.server.secret_key)

    def run(*words: str) -> Outcome:
        outcome = lakebed(*words)
        assert outcome.status == 0, outcome.err
        return outcome

    return run


def test_policy_queries_print_their_results(lake: Lake, run_command: Lakebed) -> None:
    table = lake.table()
    where = ("--warehouse", table.warehouse)
    policies = lake.client.policies
    policies.create(table.warehouse, NS, "p", COMPACTION, {"enable": True}, description="daily")
    policies.update(table.warehouse, NS, "p", {"enable": False}, current_version=0)

    assert run_command("table-policy", "uncovered", *where, "--type", COMPACTION).out.split() == ["table", "ns.t"]
    lines = run_command("table-policy", "effect", "ns.p", *where, "--namespace", "ns").out.splitlines()
    assert lines[0].split() == ["for", "type", "from", "to", "why"]
    assert "table ns.t" in lines[1]
    assert "policy ns.p v1, inherited from namespace ns" in lines[1]
    as_json = run_command("table-policy", "effect", "ns.p", *where, "--table", "ns.t", "--json").document
    assert [one["name"] for one in as_json] == ["t"]

    policies.attach(table.warehouse, NS, "p", namespace_target(NS), parameters={"a": "1"})
    assert "namespace ns  a=1" in run_command("table-policy", "targets", "ns.p", *where).out
    assert run_command("table-policy", "uncovered", *where, "--namespace", "ns", "--json").document == []
    gone = run_command("table-policy", "effect", "ns.p", *where, "--namespace", "ns", "--detach").out
    assert "no other policy of system.data-compaction" in gone

    versions = run_command("table-policy", "versions", "ns.p", *where).out.splitlines()
    assert [line.split()[0] for line in versions] == ["version", "1", "0"]
    assert versions[2].endswith("root  daily")
    assert run_command("table-policy", "show", "ns.p", *where).out.strip() == '{"enable":false}'
    past = run_command("table-policy", "show", "ns.p", *where, "--version", "0", "--json").document
    assert (past["content"], past["created-by"]) == ('{"enable":true}', "root")


def test_invalid_names_are_reported(lake: Lake, lakebed: Lakebed, run_command: Lakebed) -> None:
    where = ("--warehouse", lake.warehouse())
    for words in (
        ("table-policy", "targets", "p", *where),
        ("table-policy", "targets", "ns.none", *where),
        ("table-policy", "effect", "ns.p", *where, "--table", "t"),
        ("table-policy", "effect", "ns.p", *where, "--table", "ns.t", "--namespace", "ns"),
        ("label", "set", "table", "ns.t", *where, "--tag", "gold"),
        ("label", "set", "table", "ns.t", *where, "--owner", "ann"),
        ("label", "set", "table", "ns.t", *where, "--owner", "principal:ann", "--no-owner"),
        ("label", "show", "table", "t", *where),
        ("label", "show", "table", "ns.t"),
        ("label", "find", "--owner", "ann"),
    ):
        outcome = lakebed(*words)
        assert (outcome.status, outcome.out) == (2, ""), words
        assert outcome.err.startswith("lakebed: ")


def test_entities_are_labelled_and_found(lake: Lake, run_command: Lakebed) -> None:
    table = lake.table()
    where = ("--warehouse", table.warehouse)
    outcome = run_command(
        "label", "set", "table", "ns.t", *where, "--tag", "tier=gold", "--tag", "of=a=b", "--owner", "principal:root"
    )
    assert outcome.out.splitlines() == [
        f"table  {table.warehouse}.ns.t",
        "owner  principal:root",
        "tags   of:a=b, tier:gold",
    ]
    run_command("label", "set", "catalog", table.warehouse, "--tag", "tier=gold")
    lines = run_command("label", "find", "--tag", "tier:gold", "--catalog", table.warehouse).out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["catalog", table.warehouse],
        ["table", f"{table.warehouse}.ns.t"],
    ]
    found = run_command("label", "find", "--owner", "principal:root", "--kind", "table", "--json").document
    assert [one["tags"] for one in found if one["catalog"] == table.warehouse] == [{"of": "a=b", "tier": "gold"}]
    run_command("label", "set", "table", "ns.t", *where, "--remove-tag", "of", "--no-owner")
    shown = json.loads(run_command("label", "show", "table", "ns.t", *where, "--json").out)
    assert (shown["tags"], shown["owner"]) == ({"tier": "gold"}, None)
    run_command("label", "set", "table", "ns.t", *where, "--remove-tag", "tier")
    assert run_command("label", "show", "table", "ns.t", *where).out.splitlines()[-1] == "tags   -"
