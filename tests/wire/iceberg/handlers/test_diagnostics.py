from __future__ import annotations

import pytest

from lakebed.meta.seam import Transaction
from tests.wire.iceberg.lake import Lake, allow

from .tables_with_data import TABLE, append, set_property, table_with_data

CATALOG = TABLE + "/catalog"
MIGRATION = "/lake/catalog/migration"


async def lose_record(lake: Lake, generation: int) -> None:
    async def work(tx: Transaction) -> None:
        assert await tx.run("DELETE FROM entry_commits WHERE generation = ?", generation) == 1

    await lake.store.meta.transact(work)


async def test_export_has_the_records_of_a_table(lake: Lake) -> None:
    table = await table_with_data(lake)
    export = (await lake.call("GET", CATALOG + "/export")).document
    assert set(export) == {"table_bucket", "namespace", "table", "backing_manifest"}
    assert export["table"]["metadata_location"] == table["metadata-location"]
    assert export["table"]["version_token"] == table["version-token"]
    assert export["table"]["table_uuid"] == table["metadata"]["table-uuid"]
    assert (export["table"]["format"], export["table"]["state"]) == ("ICEBERG", "ACTIVE")
    assert export["table_bucket"]["warehouse_root"] == "s3://lake/"
    assert export["namespace"]["namespace"] == "ns"
    manifest = export["backing_manifest"]
    assert manifest["current"]["wal"]["committed_generation"] == 2
    assert manifest["current"]["wal"]["status"] == "RECOVERABLE"
    assert manifest["current"]["store"] == "sqlite"
    assert manifest["migration"]["status"] == "ALREADY_STRONG"


async def test_export_counts_commits(lake: Lake) -> None:
    """The export is requested twice, with a commit in between, so a constant would fail."""
    await table_with_data(lake)
    first = (await lake.call("GET", CATALOG + "/export")).document["backing_manifest"]
    lake.clock.advance(60)
    await set_property(lake, "a", "1")
    second = (await lake.call("GET", CATALOG + "/export")).document["backing_manifest"]
    assert first["scale_validation"]["commit_log_count"] + 1 == second["scale_validation"]["commit_log_count"]
    assert first["scale_validation"]["last_commit_at"] < second["scale_validation"]["last_commit_at"]


async def test_healthy_table_is_diagnosed_as_healthy(lake: Lake) -> None:
    await table_with_data(lake)
    found = (await lake.call("GET", CATALOG + "/diagnostics")).document
    assert found["current_metadata_status"] == "VALID"
    assert (found["recovery_status"], found["recommended_actions"]) == ("HEALTHY", [])
    assert found["metadata"]["snapshot_count"] == 1
    assert found["orphan_metadata_candidate_locations"] == []
    assert [commit["recovery_state"] for commit in found["commit_recovery"]["commits"]] == ["COMMITTED"] * 2
    assert found["catalog"]["table"]["generation"] == found["commit_recovery"]["current_generation"] == 2
    done = (await lake.call("POST", CATALOG + "/recovery")).document
    assert (done["finalized_count"], done["discarded_count"], done["reclaimed_directories"]) == (0, 0, [])


async def test_recovery_restores_a_lost_commit_record(lake: Lake) -> None:
    await table_with_data(lake)
    await append(lake)
    await lose_record(lake, 2)
    diagnosis = (await lake.call("GET", CATALOG + "/diagnostics")).document
    assert (diagnosis["recovery_status"], diagnosis["recommended_actions"]) == ("RECOVERABLE", ["RUN_COMMIT_RECOVERY"])
    assert diagnosis["backing_manifest"]["current"]["wal"]["status"] == "RECOVERY_REQUIRED"
    assert diagnosis["backing_manifest"]["migration"]["blockers"] == ["COMMIT_RECOVERY_REQUIRED"]
    assert diagnosis["commit_recovery"]["finalization_required_count"] == 1
    done = (await lake.call("POST", CATALOG + "/recovery", {})).document
    assert (done["finalized_count"], done["finalization_required_count"]) == (1, 0)
    assert (await lake.call("GET", CATALOG + "/diagnostics")).document["recovery_status"] == "HEALTHY"


async def test_import_is_part_of_the_export(lake: Lake) -> None:
    await lake.table("gone")
    pointer = (await lake.call("GET", "/lake/namespaces/ns/tables/gone/metadata-location")).document
    await lake.call("DELETE", "/lake/namespaces/ns/tables/gone")
    document = {
        "metadata-location": pointer["metadata-location"],
        "properties": {"from": "glue"},
        "external-version-token": "7",
    }
    assert (await lake.call("POST", CATALOG + "/import", document)).status == 200
    export = (await lake.call("GET", CATALOG + "/export")).document
    assert export["table"]["properties"] == {"from": "glue"}
    assert export["import"]["external_version_token"] == "7"
    assert export["import"]["imported_by"] == "root"


async def test_migration_reports_that_nothing_is_to_migrate(lake: Lake) -> None:
    await table_with_data(lake)
    found = (await lake.call("GET", MIGRATION)).document
    assert found["status"] == "ALREADY_STRONG"
    assert (found["namespace_count"], found["table_count"], found["commit_log_count"]) == (1, 1, 2)
    assert (found["blockers"], found["warehouse_index_ready"]) == ([], True)
    started = (await lake.call("POST", MIGRATION)).document
    assert started["status"] == "ALREADY_STRONG"
    await append(lake)
    assert (await lake.call("POST", MIGRATION)).document["source_fingerprint"] != started["source_fingerprint"]
    cancelled = (await lake.call("DELETE", MIGRATION)).document
    assert cancelled == {
        "table_bucket": "lake",
        "status": "NO_MIGRATION_FENCE",
        "object_backed_writes_fenced": False,
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", MIGRATION), ("DELETE", MIGRATION)],
)
async def test_unknown_fields_are_refused(lake: Lake, method: str, path: str) -> None:
    await lake.table()
    assert (await lake.call(method, path, {"force": True})).error == (400, "BadRequestException")


async def test_diagnostics_require_permissions(lake: Lake) -> None:
    await lake.table()
    reader = await lake.user("reader", allow("s3tables:GetTableMetadataLocation"))
    for path in ("export", "diagnostics"):
        assert (await lake.call("GET", f"{CATALOG}/{path}", keys=reader)).status == 200
    assert (await lake.call("POST", CATALOG + "/recovery", keys=reader)).error == (403, "ForbiddenException")
    assert (await lake.call("GET", MIGRATION, keys=reader)).error == (403, "ForbiddenException")
    absent = await lake.call("GET", "/lake/namespaces/ns/tables/none/catalog/export")
    assert absent.error == (404, "NoSuchTableException")
    absent = await lake.call("GET", "/lake/namespaces/none/tables/t/catalog/diagnostics")
    assert absent.error == (404, "NoSuchNamespaceException")
