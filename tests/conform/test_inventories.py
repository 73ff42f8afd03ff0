from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.conform import capabilities, engines, failures
from lakebed.conform.evidence import EvidenceSummary
from lakebed.conform.inventories import PRINTS, Context
from lakebed.conform.options import add_options, option_values
from lakebed.core.errors import InvalidInput
from lakebed.pipeline.spark.versions import PACKAGES
from tests.fixtures.evidence import VERSIONS
from tests.fixtures.recorded_evidence import selectors

from .records import NOTHING, evidence, record


def values(*words: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    add_options(parser)
    options = option_values(parser.parse_args(words), {}, 1_700_000_000)
    return {**options, **{option.name: option.default or "" for option in (*engines.VERSIONS, *failures.LOADS)}}


def printed(name: str, known: EvidenceSummary = NOTHING, *words: str, **more: str) -> Any:  # Any: JSON
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


def everything_passed() -> EvidenceSummary:
    tests = [one.replace("*", "x") for one in selectors()]
    return evidence(*(record(one if "::" in one else f"{one}::test_x") for one in tests))


def test_without_evidence_nothing_is_claimed() -> None:
    statuses_by_print = {name: set(statuses(printed(name))) for name in PRINTS}
    # Profiles have a status of their own: which of them are run at all.
    assert {name for name, found in statuses_by_print.items() if found - {"not-claimed"}} == {
        "vendor-audit",
        "vendor-profiles",
    }
    assert statuses_by_print["vendor-audit"] == statuses_by_print["vendor-profiles"] | {"not-claimed"}


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
def test_each_report_has_its_key(name: str, key: str) -> None:
    assert printed(name)[key]


def test_every_report_is_tested_for_its_key() -> None:
    assert len(PRINTS) == 18


def test_client_status_follows_from_its_tests() -> None:
    known = evidence(
        record("tests/clients/iceberg/test_duckdb.py::test_a", client="duckdb", scenario="writing"),
        record("tests/clients/iceberg/test_duckdb.py::test_b", "skipped", client="duckdb", scenario="writing"),
        record("tests/clients/iceberg/test_trino.py::test_a", "skipped", client="trino"),
        record("tests/clients/iceberg/test_polaris.py::test_a", client="polaris"),
    )
    matrix = {entry["client"]: entry for entry in printed("client-matrix", known)["client_matrix"]}
    assert matrix["duckdb"] == {
        "client": "duckdb",
        "status": "automated",
        "versions": ["1.2.3"],
        "coverage": [{"scenario": "writing", "passed": 1, "skipped": 1}],
        "entrypoint": "pytest tests/clients/iceberg/test_duckdb.py",
    }
    assert (matrix["trino"]["status"], matrix["trino"]["versions"]) == ("not-claimed", [])
    assert matrix["spark"]["status"] == matrix["boto3"]["status"] == "not-claimed"
    assert matrix["polaris"]["status"] == "automated"
    engine = next(one for one in engines.engine_compatibility(known) if one["client_name"] == "duckdb")
    assert engine["tested_versions"] == ["1.2.3"]


def test_every_tested_client_is_in_the_matrix_before_its_first_run() -> None:
    assert VERSIONS.keys() <= {entry["client"] for entry in printed("client-matrix")["client_matrix"]}


def test_printed_versions_are_the_tested_versions() -> None:
    stated = {option.name: option.default for option in engines.VERSIONS}
    for client in ("pyiceberg", "trino", "duckdb"):
        assert stated[f"{client}_version"] == VERSIONS[client]()
    spark = VERSIONS["spark"]()
    assert spark.startswith(f"{stated['spark_version']}.")
    assert spark.endswith(f" with Iceberg {stated['iceberg_version']}")


UNCLAIMED_BY_OTHERS = {
    1: ["bootstrap without long-term data credentials"],
    2: ["continuous in-process maintenance scheduling"],
    3: ["sort compaction", "row-level compaction", "delete-file rewrite"],
    4: ["background snapshot expiration", "manifest and data cleanup tied to expiration"],
    5: [f"end-to-end SQL row-level DML: {engine}" for engine in ("Spark", "Trino", "other engines")],
    6: ["live polling of external catalogs", "mirroring of external policies"],
    7: ["multi-table transactions"],
    8: ["active-active multi-region writes"],
    9: [
        "automated Spark",
        "Trino write",
        "DuckDB write and commit",
        "StarRocks write",
        "Databend as an Iceberg REST client",
        "Snowflake live",
    ],
    10: [
        "AWS S3 Tables control-plane parity",
        "Lake Formation",
        "Glue",
        "CloudTrail",
        "AIStor private extensions",
        "R2 interoperability",
        "OSS interoperability",
        "provider error codes",
    ],
    11: ["built-in SQL", "Delta", "Hudi"],
    12: ["Idempotency-Key header", "advertised lifetime of idempotency keys"],
    13: [
        "stage-create",
        "register overwrite",
        "purge",
        "format v3",
        "encryption keys",
        "rename",
        "namespace properties",
    ],
}


def test_features_unclaimed_by_others_are_listed_by_name() -> None:
    found: dict[int, list[str]] = {}
    for entry in printed("beyond")["beyond"]:
        found.setdefault(entry["item"], []).append(entry["unclaimed_by_others"])
    assert found == UNCLAIMED_BY_OTHERS


def test_features_unclaimed_by_others_are_claimed_if_their_tests_passed() -> None:
    known = evidence(
        record("tests/catalog/test_idempotency.py::test_a"), record("tests/wire/iceberg/test_replays.py::test_b")
    )
    for entry in printed("beyond", known)["beyond"]:
        is_shown = entry["unclaimed_by_others"] == "Idempotency-Key header"
        assert entry["status"] == ("claimed" if is_shown else "not-claimed"), entry
        assert bool(entry["tests"]) is is_shown
        assert is_shown or entry.get("lacks") or entry["note"]
    all_shown = printed("beyond", everything_passed())
    by_status = all_shown["beyond_summary"]
    assert by_status["not-claimed"] == [
        "mirroring of external policies",
        "active-active multi-region writes",
        "StarRocks write",
        "Databend as an Iceberg REST client",
        "Snowflake live",
        *UNCLAIMED_BY_OTHERS[10],
        *UNCLAIMED_BY_OTHERS[11][1:],
    ]
    assert len(by_status["claimed"]) + len(by_status["not-claimed"]) == len(all_shown["beyond"])


def test_capability_without_its_route_is_not_claimed() -> None:
    endpoints = [capability.endpoint for capability in capabilities.CAPABILITIES if capability.endpoint]
    passed = everything_passed()
    for entry in capabilities.unsupported_inventory(passed, endpoints):
        assert entry["status"] != "not-claimed", entry
    for entry in capabilities.unsupported_inventory(passed, []):
        assert (entry["status"] == "not-claimed") is ("catalog_endpoint" in entry), entry


def test_unsupported_features_of_s3_and_catalog_are_in_the_inventory() -> None:
    by_store = [{"feature": "BitTorrent", "answer": "501 NotImplemented", "note": ""}]
    by_catalog = [{"feature": "Functions", "answer": "406 UnsupportedOperationException", "note": ""}]
    printed = PRINTS["unsupported-inventory"][1](Context(NOTHING, values(), (), by_store, by_catalog))
    assert (printed["s3_unsupported"], printed["catalog_unsupported"]) == (by_store, by_catalog)


def test_readiness_is_validated_by_tests() -> None:
    for entry in capabilities.production_readiness(everything_passed()):
        assert bool(entry["validation"]) is (entry["status"] != "not-claimed")


def test_failure_cases_are_counted_by_status() -> None:
    assert failures.failure_coverage(NOTHING)["by_status"] == {
        "not-claimed": [case.claim.name for case in failures.CASES]
    }
    assert failures.failure_coverage(everything_passed()) == {
        "cases": 8,
        "by_status": {"claimed": [case.claim.name for case in failures.CASES]},
    }


def test_selected_profile_is_resolved_with_the_options() -> None:
    report = printed("vendor-profiles", NOTHING, "--profile", "aws-s3tables", "--table-bucket", "lake")
    assert report["selected_vendor_profile"]["warehouse"] == "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
    assert len(report["vendor_profiles"]) == 7
    with pytest.raises(InvalidInput, match="--table-bucket"):
        printed("vendor-profiles", NOTHING, "--profile", "aws-s3tables")


def test_vendor_audit_lists_the_tests_of_profiles() -> None:
    known = evidence(record("tests/conform/test_live_run.py::test_lakebed_compat_passes"))
    audit = {entry["name"]: entry["evidence_status"] for entry in engines.vendor_audit(known)}
    assert audit["lakebed-compat"] == "claimed"
    assert audit["lakebed"] == audit["aws-s3tables"] == "not-claimed"


def test_spark_config_contains_no_credentials() -> None:
    config = printed("spark-config", NOTHING, "--access-key", "AKIA", "--secret-key", "hidden")["spark_config"]
    assert config["spark.jars.packages"] == ",".join(PACKAGES)
    assert config["spark.sql.catalog.lakebed.uri"] == "http://127.0.0.1:9000/iceberg"
    assert not {"AKIA", "hidden"} & set(config.values())


@pytest.mark.parametrize(("cleanup", "last"), [("", "SELECT"), ("yes", "DROP NAMESPACE")])
def test_spark_sql_drops_the_table_with_cleanup(cleanup: str, last: str) -> None:
    statements = printed("spark-sql", NOTHING, "--namespace", "ns", "--table", "t", cleanup=cleanup)["spark_sql"]
    assert "CREATE TABLE lakebed.ns.t (id BIGINT, payload STRING) USING iceberg" in statements
    assert statements[-1].startswith(last)


def test_probe_urls_encode_namespace_levels() -> None:
    probes = printed("failure-probes", NOTHING, "--namespace", "a.b", "--table", "t")["failure_probes"]
    assert len(probes) == 6
    assert all("/namespaces/a%1Fb/" in probe["url"] for probe in probes)


def test_rehearsal_uses_the_given_counts() -> None:
    phases = printed("scale-fault-rehearsal", NOTHING, writer_count="3", iteration_count="7")["scale_fault_rehearsal"]
    assert len(phases) == 5
    assert phases[1]["do"] == "3 writers of one table, 7 commits each"
