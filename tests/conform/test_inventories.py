from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.conform import beyond, capabilities, engines, failures
from lakebed.conform.evidence import Evidence
from lakebed.conform.inventories import PRINTS, Context, selectors
from lakebed.conform.options import add_options, option_values
from lakebed.core.errors import InvalidInput

from .records import NOTHING, evidence, record

BELIEF = {"automated", "supported", "shown", "exceeded", "partly", "transactional"}


def values(*words: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    add_options(parser)
    made = option_values(parser.parse_args(words), {}, 1_700_000_000)
    return {**made, **{option.name: option.default or "" for option in (*engines.VERSIONS, *failures.LOADS)}}


def printed(name: str, known: Evidence = NOTHING, *words: str, **more: str) -> Any:  # Any: JSON
    return PRINTS[name][1](Context(known, {**values(*words), **more}))


def statuses(value: Any) -> Iterator[str]:  # Any: JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("status", "evidence_status") and isinstance(inner, str):
                yield inner
            yield from statuses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from statuses(inner)


def everything_passed() -> Evidence:
    tests = [one.replace("*", "x") for one in selectors()]
    return evidence(*(record(one if "::" in one else f"{one}::test_x") for one in tests))


@pytest.mark.parametrize("name", PRINTS)
def test_without_evidence_nothing_is_claimed(name: str) -> None:
    assert not BELIEF & set(statuses(printed(name)))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("client-matrix", "client_matrix"),
        ("vendor-profiles", "vendor_profiles"),
        ("unsupported-inventory", "unsupported_inventory"),
        ("production-readiness", "production_readiness"),
        ("engine-compatibility", "engine_compatibility"),
        ("production-failure-coverage", "production_failure_coverage"),
        ("engine-matrix", "engine_matrix"),
        ("vendor-audit", "vendor_audit"),
        ("live-conformance", "live_conformance"),
        ("live-evidence-schema", "live_conformance_evidence_schema"),
        ("operations-guide", "operations_guide"),
        ("spark-config", "spark_config"),
        ("spark-sql", "spark_sql"),
        ("failure-matrix", "failure_matrix"),
        ("failure-probes", "failure_probes"),
        ("disaster-recovery-rehearsal", "disaster_recovery_rehearsal"),
        ("scale-fault-rehearsal", "scale_fault_rehearsal"),
        ("beyond", "beyond"),
    ],
)
def test_each_print_has_its_key(name: str, key: str) -> None:
    assert printed(name)[key]


def test_every_print_is_tested_for_its_key() -> None:
    assert len(PRINTS) == 18


def test_clients_are_what_their_tests_made_of_them() -> None:
    known = evidence(
        record("tests/clients/iceberg/test_duckdb.py::test_a", client="duckdb", scenario="writing"),
        record("tests/clients/iceberg/test_duckdb.py::test_b", "skipped", client="duckdb", scenario="writing"),
        record("tests/clients/iceberg/test_trino.py::test_a", "failed", client="trino"),
        record("tests/clients/iceberg/test_polaris.py::test_a", client="polaris"),
    )
    matrix = {entry["client"]: entry for entry in printed("client-matrix", known)["client_matrix"]}
    assert matrix["duckdb"] == {
        "client": "duckdb",
        "status": "automated",
        "versions": ["1.2.3"],
        "coverage": [{"scenario": "writing", "passed": 1, "failed": 0, "skipped": 1}],
        "entrypoint": "pytest tests/clients/iceberg/test_duckdb.py",
    }
    assert matrix["trino"]["status"] == "failing"
    assert matrix["spark"]["status"] == "not-claimed"
    assert matrix["polaris"]["status"] == "automated"
    engine = next(one for one in engines.engine_compatibility(known) if one["client_name"] == "duckdb")
    assert engine["tested_versions"] == ["1.2.3"]


def test_items_are_the_thirteen_and_go_as_far_as_their_tests() -> None:
    assert [item.number for item in beyond.ITEMS] == list(range(1, 14))
    by_number = {entry["item"]: entry for entry in beyond.beyond(everything_passed())}
    assert by_number[1]["status"] == "exceeded"
    assert by_number[6]["status"] == "partly"
    assert by_number[8]["status"] == "not"
    assert {entry["status"] for entry in beyond.beyond(NOTHING)} == {"not"}


def test_capability_whose_route_is_not_served_is_not_claimed() -> None:
    endpoints = [capability.endpoint for capability in capabilities.CAPABILITIES if capability.endpoint]
    passed = everything_passed()
    for entry in capabilities.unsupported_inventory(passed, endpoints):
        assert entry["status"] != "not-claimed", entry
    for entry in capabilities.unsupported_inventory(passed, []):
        assert (entry["status"] == "not-claimed") is ("catalog_endpoint" in entry), entry


def test_refusals_of_the_store_are_in_the_inventory() -> None:
    refused = [{"feature": "BitTorrent", "answer": "501 NotImplemented", "note": ""}]
    context = Context(NOTHING, values(), (), refused)
    assert PRINTS["unsupported-inventory"][1](context)["s3_unsupported"] == refused


def test_readiness_is_validated_by_tests() -> None:
    for entry in capabilities.production_readiness(everything_passed()):
        assert bool(entry["validation"]) is (entry["status"] != "not-claimed")


def test_cases_of_failure_are_counted_by_what_their_tests_say() -> None:
    assert failures.failure_coverage(NOTHING)["by_status"] == {
        "not-claimed": [case.claim.name for case in failures.CASES]
    }
    assert failures.failure_coverage(everything_passed()) == {
        "cases": 8,
        "by_status": {"shown": [case.claim.name for case in failures.CASES]},
    }


def test_chosen_profile_is_shown_with_the_options() -> None:
    made = printed("vendor-profiles", NOTHING, "--profile", "aws-s3tables", "--table-bucket", "lake")
    assert made["selected_vendor_profile"]["warehouse"] == "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
    assert len(made["vendor_profiles"]) == 7
    with pytest.raises(InvalidInput, match="--table-bucket"):
        printed("vendor-profiles", NOTHING, "--profile", "aws-s3tables")


def test_profiles_are_audited_by_the_tests_that_ran_them() -> None:
    known = evidence(record("tests/conform/test_live_run.py::test_lakebed_compat_passes"))
    audit = {entry["name"]: entry["evidence_status"] for entry in engines.vendor_audit(known)}
    assert audit["lakebed-compat"] == "shown"
    assert audit["lakebed"] == audit["aws-s3tables"] == "not-claimed"


def test_spark_is_configured_without_keys() -> None:
    config = printed("spark-config", NOTHING, "--access-key", "AKIA", "--secret-key", "hidden")["spark_config"]
    assert "iceberg-spark-runtime-4.1_2.13:1.11.0" in config["spark.jars.packages"]
    assert config["spark.sql.catalog.lakebed.uri"] == "http://127.0.0.1:9000/iceberg"
    assert not {"AKIA", "hidden"} & set(config.values())


@pytest.mark.parametrize(("cleanup", "last"), [("", "SELECT"), ("yes", "DROP NAMESPACE")])
def test_spark_s_statements_clean_up_if_asked_for(cleanup: str, last: str) -> None:
    statements = printed("spark-sql", NOTHING, "--namespace", "ns", "--table", "t", cleanup=cleanup)["spark_sql"]
    assert "CREATE TABLE lakebed.ns.t (id BIGINT, payload STRING) USING iceberg" in statements
    assert statements[-1].startswith(last)


def test_probes_name_the_table_level_by_level() -> None:
    probes = printed("failure-probes", NOTHING, "--namespace", "a.b", "--table", "t")["failure_probes"]
    assert len(probes) == 6
    assert all("/namespaces/a%1Fb/" in probe["url"] for probe in probes)


def test_rehearsal_takes_its_numbers() -> None:
    phases = printed("scale-fault-rehearsal", NOTHING, writer_count="3", iteration_count="7")["scale_fault_rehearsal"]
    assert len(phases) == 5
    assert phases[1]["do"] == "3 writers of one table, 7 commits each"
