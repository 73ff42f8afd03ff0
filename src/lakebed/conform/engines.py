"""Query engines: their test coverage, and their configuration for this catalog."""

# ruff: noqa: S608 (statements are printed for a person to run)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakebed.pipeline.spark.versions import EXTENSIONS, ICEBERG_VERSION, SCALA_VERSION, SPARK_VERSION

from .claims import ClaimStatus, FeatureClaim, judge, judge_client
from .evidence import ClientResults, EvidenceSummary
from .live_evidence import CLAIMS
from .options import ConformOption
from .profiles import PROFILES, ResolvedProfile, described

VERSIONS: Final = (
    ConformOption("pyiceberg_version", "PyIceberg's version", (), "0.12.0"),
    ConformOption("spark_version", "Spark's version", (), SPARK_VERSION),
    ConformOption("iceberg_version", "version of Iceberg's libraries for Spark", (), ICEBERG_VERSION),
    ConformOption("scala_version", "Scala's version, of Spark's build", (), SCALA_VERSION),
    ConformOption("trino_version", "Trino's version", (), "476"),
    ConformOption("duckdb_version", "DuckDB's version", (), "1.5.5"),
    ConformOption("trino_server", "Trino server", (), "http://127.0.0.1:8080"),
    ConformOption("databend_dsn", "Databend DSN", (), "databend://root@127.0.0.1:8000/default"),
    ConformOption("metadata_location", "a metadata file, for clients that need one", (), ""),
)
"""Options of the reports about engines."""


@dataclass(frozen=True, slots=True)
class QueryEngine:
    """A client of the catalog."""

    name: str
    title: str
    version_option: str = ""
    needs: tuple[str, ...] = ()
    """Settings without secrets, as templates over the options."""


ENGINES: Final = (
    QueryEngine(
        "pyiceberg",
        "PyIceberg",
        "pyiceberg_version",
        ("type=rest", "uri={catalog_uri}", "warehouse={warehouse}", "rest.sigv4-enabled=true"),
    ),
    QueryEngine("spark", "Apache Spark", "spark_version"),
    QueryEngine(
        "trino",
        "Trino",
        "trino_version",
        (
            "connector.name=iceberg",
            "iceberg.catalog.type=rest",
            "iceberg.rest-catalog.uri={catalog_uri}",
            "iceberg.rest-catalog.warehouse={warehouse}",
            "iceberg.rest-catalog.sigv4-enabled=true",
            "iceberg.rest-catalog.signing-name={rest_signing_name}",
            "iceberg.rest-catalog.vended-credentials-enabled=true",
            "fs.native-s3.enabled=true",
            "s3.endpoint={s3_endpoint}",
            "s3.region={region}",
            "s3.path-style-access=true",
        ),
    ),
    QueryEngine(
        "duckdb",
        "DuckDB",
        "duckdb_version",
        (
            "CREATE SECRET (TYPE s3, PROVIDER credential_chain, REGION '{region}')",
            "ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{catalog_uri}', AUTHORIZATION_TYPE 'sigv4',"
            " SIGV4_SERVICE '{rest_signing_name}', SIGV4_REGION '{region}')",
        ),
    ),
    QueryEngine("databend", "Databend", "", ("dsn={databend_dsn}", "stage=s3://{bucket}/")),
    QueryEngine("starrocks", "StarRocks", "", ("iceberg.catalog.type=rest", "iceberg.catalog.uri={catalog_uri}")),
    QueryEngine("snowflake", "Snowflake", "", ("CATALOG_SOURCE=ICEBERG_REST", "CATALOG_URI={catalog_uri}")),
)

STORE_CLIENTS: Final = ("boto3", "awscli", "mc", "minio_py", "pyarrow", "s3fs")
"""Clients of S3 only, by name in the tests."""

KITS: Final = ("compatibility_kit",)
"""Test kits: Iceberg's REST Compatibility Kit."""

PROFILE_CLAIMS: Final = tuple(
    (
        profile,
        FeatureClaim(
            profile.name,
            (f"tests/conform/test_live_run.py::test_{profile.name.replace('-', '_')}_passes",)
            if profile.can_run
            else (),
        ),
    )
    for profile in PROFILES.values()
)
"""Profiles, with the claim that a run passes."""

_AUTOMATED: Final = "automated"


def client_matrix(evidence: EvidenceSummary) -> list[dict[str, Any]]:  # Any: JSON
    """Clients, with test coverage and the command to run the tests."""
    named = [*(engine.name for engine in ENGINES), *KITS, *STORE_CLIENTS]
    others = [client for client in evidence.clients if client not in named]
    return [_client(name, evidence) for name in (*named, *others)]


def engine_compatibility(evidence: EvidenceSummary) -> list[dict[str, Any]]:  # Any: JSON
    """Engines, with tested versions, scenarios, and claims of manual runs."""
    entries = []
    for engine in ENGINES:
        entries.append(
            {
                "engine": engine.title,
                "client_name": engine.name,
                "status": _status(engine.name, evidence),
                "tested_versions": evidence.versions_of(engine.name),
                "scenarios": _scenarios(evidence.of_client(engine.name)),
                "live_evidence_claims": list(CLAIMS.get(engine.name, ())),
            }
        )
    return entries


def engine_matrix(
    evidence: EvidenceSummary, values: Mapping[str, str], profile: ResolvedProfile
) -> list[dict[str, Any]]:
    """Engines, with their settings for this target."""
    known = {**values, **_profile_values(profile)}
    entries = []
    for engine in ENGINES:
        entry: dict[str, Any] = {  # Any: JSON
            "engine": engine.title,
            "client_name": engine.name,
            "status": _status(engine.name, evidence),
            "settings": [setting.format_map(known) for setting in engine.needs],
        }
        if engine.name == "spark":
            entry["settings"] = [f"{name}={value}" for name, value in spark_config(values, profile).items()]
        if engine.version_option:
            entry["version"] = values[engine.version_option]
        entries.append(entry)
    return entries


def vendor_audit(evidence: EvidenceSummary) -> list[dict[str, Any]]:  # Any: JSON
    """Profiles, with their tests."""
    entries = []
    for profile, claim in PROFILE_CLAIMS:
        verdict = judge(claim, evidence)
        entries.append({**described(profile), "evidence_status": verdict.standing.value, "tests": list(verdict.tests)})
    return entries


def live_conformance(values: Mapping[str, str], profile: ResolvedProfile) -> list[dict[str, Any]]:  # Any: JSON
    """Commands to test each client manually. Credentials come from the environment."""
    cleanup = ["--cleanup"] if values.get("cleanup") else []
    command = ["lakebed", "conform", "--profile", profile.name, "--endpoint", values["endpoint"], *cleanup]
    table = f"{values['catalog_name']}.{values['namespace']}.{values['table']}"
    count = f"SELECT count(*) FROM {table}"
    return [
        {"client": "pyiceberg", "command": " ".join(command), "expect": "PASS"},
        {
            "client": "spark",
            "command": "spark-sql with --print-spark-config, then --print-spark-sql",
            "expect": "count = 2",
        },
        {
            "client": "trino",
            "command": f'trino --server {values["trino_server"]} --execute "{count}"',
            "expect": "2",
        },
        {
            "client": "duckdb",
            "command": (
                f"SELECT count(*) FROM iceberg_scan('{values['metadata_location']}')"
                if values["metadata_location"]
                else f"SELECT count(*) FROM lake.{values['namespace']}.{values['table']}"
            ),
            "expect": "2",
        },
        {"client": "databend", "command": f"connect to {values['databend_dsn']}; {count}", "expect": "2"},
    ]


def operations_guide(values: Mapping[str, str], profile: ResolvedProfile) -> list[dict[str, str]]:
    """Steps for operators, with the expected result."""
    catalog = profile.catalog_uri
    return [
        {"do": "set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY", "see": "`lakebed credentials` names root's key"},
        {"do": f"PUT {catalog}/v1/buckets/{values['bucket']}", "see": "200, enabled is true"},
        {"do": f"lakebed conform --profile {profile.name} --cleanup", "see": "PASS, exit status 0"},
        {"do": "lakebed conform --print-failure-probes", "see": "each response has the expected_status"},
        {"do": "GET /metrics", "see": "the catalog's requests and commits are counted"},
        {"do": "lakebed conform --live-evidence-output FILE …", "see": "validation.is_valid is true in FILE"},
    ]


def spark_config(values: Mapping[str, str], profile: ResolvedProfile) -> dict[str, str]:
    """Spark properties for this catalog. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""
    line = ".".join(values["spark_version"].split(".")[:2])
    iceberg = values["iceberg_version"]
    runtime = f"org.apache.iceberg:iceberg-spark-runtime-{line}_{values['scala_version']}:{iceberg}"
    name = f"spark.sql.catalog.{values['catalog_name']}"
    return {
        "spark.jars.packages": f"{runtime},org.apache.iceberg:iceberg-aws-bundle:{iceberg}",
        "spark.sql.extensions": EXTENSIONS,
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "rest",
        f"{name}.uri": profile.catalog_uri,
        f"{name}.warehouse": profile.warehouse,
        f"{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{name}.rest.sigv4-enabled": "true",
        f"{name}.rest.signing-name": profile.rest_signing_name,
        f"{name}.rest.signing-region": values["region"],
        f"{name}.header.X-Iceberg-Access-Delegation": "vended-credentials",
        f"{name}.s3.endpoint": values["s3_endpoint"],
        f"{name}.s3.path-style-access": "true",
        f"{name}.client.region": values["region"],
    }


def spark_sql(values: Mapping[str, str]) -> list[str]:
    """Statements that create, fill and read a table and, with `cleanup`, drop it."""
    space = f"{values['catalog_name']}.{values['namespace']}"
    table = f"{space}.{values['table']}"
    statements = [
        f"CREATE NAMESPACE IF NOT EXISTS {space}",
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id BIGINT, payload STRING) USING iceberg",
        f"INSERT INTO {table} VALUES (1, 'first'), (2, 'second')",
        f"REFRESH TABLE {table}",
        f"SELECT count(*) = 2 AS passed FROM {table}",
    ]
    if values.get("cleanup"):
        statements += [f"DROP TABLE {table}", f"DROP NAMESPACE {space}"]
    return statements


def _client(name: str, evidence: EvidenceSummary) -> dict[str, Any]:  # Any: JSON
    results = evidence.of_client(name)
    return {
        "client": name,
        "status": _status(name, evidence),
        "versions": evidence.versions_of(name),
        "coverage": _scenarios(results),
        "entrypoint": f"pytest {' '.join(results.files)}" if results.files else "",
    }


def _status(client: str, evidence: EvidenceSummary) -> str:
    standing = judge_client(client, evidence)
    return _AUTOMATED if standing is ClaimStatus.CLAIMED else standing.value


def _scenarios(results: ClientResults) -> list[dict[str, Any]]:  # Any: JSON
    return [
        {"scenario": scenario, "passed": counts.passed, "skipped": counts.skipped}
        for scenario, counts in sorted(results.scenarios.items())
    ]


def _profile_values(profile: ResolvedProfile) -> dict[str, str]:
    return {
        "catalog_uri": profile.catalog_uri,
        "warehouse": profile.warehouse,
        "rest_signing_name": profile.rest_signing_name,
    }
