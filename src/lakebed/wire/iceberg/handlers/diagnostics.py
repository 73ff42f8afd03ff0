"""Diagnostics: the catalog's records of a table, their consistency, and recovery.

All values are read or counted per request; unknown values are left out. Routes and fields are those of RustFS, with
Lakebed's terms for its design, such as the durability of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.catalog.diagnostics.catalog_inventory import CatalogInventory
from lakebed.catalog.diagnostics.commit_chain import RecoveryState
from lakebed.catalog.diagnostics.recovery_status import log_blockers, log_status
from lakebed.catalog.diagnostics.table_diagnostics import Diagnosis, RecordedState
from lakebed.catalog.identifiers import display
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..maintenance_responses import rfc3339
from ..services import IcebergServices
from .tables import TABLE_PATH

BACKING: Final = "STRONG_KV_WAL"
"""The clients' label of a catalog with commits in transactions of a strongly consistent store."""

ALREADY_STRONG: Final = "ALREADY_STRONG"
"""The migration status of every catalog: there is no other backing to migrate to."""

_VERSION: Final = 1


async def export_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Export the catalog's records of a table."""
    recorded = await services.extensions.diagnostics.recorded(request.caller, request.catalog, request.table)
    return ok(_export(recorded))


async def diagnose_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Diagnose a table."""
    found = await services.extensions.diagnostics.diagnose(request.caller, request.catalog, request.table)
    return ok(_diagnosis(found))


async def recover_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Repair a table's records. A recovery has no options: the body is ignored."""
    done = await services.extensions.recovery.recover(request.caller, request.catalog, request.table)
    return ok(
        {
            **_commit_recovery(done.recorded),
            "finalized_count": done.finalized,
            "discarded_count": done.discarded,
            "reclaimed_directories": done.reclaimed,
        }
    )


async def get_migration(services: IcebergServices, request: JsonRequest) -> Response:
    """Preview a migration of the catalog: an inventory of its records."""
    inventory = await services.extensions.inventories.survey(request.caller, request.catalog)
    return ok(_migration(inventory))


async def start_migration(services: IcebergServices, request: JsonRequest) -> Response:
    """Return the same report with a digest of the records: there is nothing to migrate."""
    await check_no_fields(request)
    fingerprint = await services.extensions.inventories.fingerprint(request.caller, request.catalog)
    inventory = await services.extensions.inventories.survey(request.caller, request.catalog)
    return ok({**_migration(inventory), "source_fingerprint": fingerprint})


async def cancel_migration(services: IcebergServices, request: JsonRequest) -> Response:
    """Report that no migration blocks writes, because none ever starts."""
    await check_no_fields(request)
    catalog = await services.extensions.inventories.authorize_change(request.caller, request.catalog)
    return ok({"table_bucket": catalog.name, "status": "NO_MIGRATION_FENCE", "object_backed_writes_fenced": False})


# -- documents ----------------------------------------------------------------------------------------------------


def _export(recorded: RecordedState) -> dict[str, Any]:
    catalog, namespace, entry = recorded.catalog, recorded.namespace, recorded.entry
    parts: dict[str, Any] = {
        "table_bucket": {
            "version": _VERSION,
            "table_bucket": catalog.name,
            "catalog_type": "iceberg-rest",
            "warehouse_root": catalog.base_location,
            "state": "ACTIVE",
            "properties": catalog.properties,
            "created_at": rfc3339(catalog.created_ms),
        },
        "namespace": {
            "version": _VERSION,
            "table_bucket": catalog.name,
            "namespace": display(namespace.levels),
            "namespace_levels": namespace.levels,
            "namespace_id": str(namespace.id),
            "state": "ACTIVE",
            "properties": namespace.properties,
            "created_at": rfc3339(recorded.namespace_created_ms),
        },
        "table": {
            "version": _VERSION,
            "table_bucket": catalog.name,
            "namespace": display(namespace.levels),
            "table": entry.name,
            "table_id": entry.id,
            "table_uuid": entry.uuid,
            "format": "ICEBERG",
            "format_version": entry.format_version,
            "warehouse_location": entry.location,
            "metadata_location": entry.metadata_at,
            "version_token": entry.version_token,
            "generation": entry.generation,
            "state": "ACTIVE" if entry.dropped_ms is None else "DELETING",
            "protected": entry.protected,
            "properties": {} if recorded.origin is None else recorded.origin.properties,
            "created_at": rfc3339(entry.created_ms),
            "updated_at": rfc3339(entry.updated_ms),
        },
    }
    if recorded.origin is not None:
        parts["import"] = {
            "metadata_location": recorded.origin.metadata_at,
            "external_version_token": recorded.origin.external_token,
            "imported_by": recorded.origin.principal,
            "imported_at": rfc3339(recorded.origin.imported_ms),
        }
    return {**parts, "backing_manifest": _backing_manifest(recorded, parts)}


def _backing_manifest(recorded: RecordedState, parts: Mapping[str, object]) -> dict[str, Any]:
    entry, chain, commits = recorded.entry, recorded.line, recorded.commits
    manifest: dict[str, Any] = {
        "version": _VERSION,
        "current": {
            "kind": BACKING,
            "authority": "METADATA_STORE",
            "store": recorded.store,
            "consistency": "SERIALIZABLE_TRANSACTION",
            "durability": "POINTER_LOG_AND_METADATA_FILE_IN_ONE_TRANSACTION",
            "current_pointer_path": f"entries/{entry.id}",
            "wal": {
                "status": log_status(chain),
                "commit_log_prefix": f"entry_commits/{entry.id}",
                "idempotency_index_prefix": f"entry_commits_by_id/{entry.id}",
                "committed_generation": entry.generation,
                "commit_log_count": commits.records,
                "line_status": chain.status,
                **_counts(recorded),
            },
        },
        "migration": {
            "source_kind": BACKING,
            "target_kind": BACKING,
            "status": ALREADY_STRONG,
            "required_steps": [],
            "blockers": log_blockers(chain),
        },
        "ha": {
            "metadata_store": recorded.store,
            "servers_may_share_the_store": recorded.store == "postgres",
            "active_chore_holder_count": len(recorded.lease_holders),
            "logged_writer_count": commits.writers,
        },
        "scale_validation": {
            "commit_log_count": commits.records,
            "first_commit_at": None if commits.first_ms is None else rfc3339(commits.first_ms),
            "last_commit_at": None if commits.last_ms is None else rfc3339(commits.last_ms),
        },
    }
    manifest["current"]["snapshot"] = {
        "export_api": f"GET {TABLE_PATH}/catalog/export",
        "includes_table_bucket": "table_bucket" in parts,
        "includes_namespace": "namespace" in parts,
        "includes_table_pointer": "table" in parts,
        "includes_backing_manifest": "current" in manifest,
    }
    return manifest


def _counts(recorded: RecordedState) -> dict[str, int]:
    chain = recorded.line
    return {
        "staged_before_table_update_count": chain.count(RecoveryState.STAGED_BEFORE_TABLE_UPDATE),
        "finalization_required_count": chain.count(RecoveryState.FINALIZATION_REQUIRED),
        "idempotency_repair_required_count": chain.conflicting_ids,
        "manual_review_count": chain.count(RecoveryState.MANUAL_REVIEW),
    }


def _commit_recovery(recorded: RecordedState) -> dict[str, Any]:
    entry = recorded.entry
    return {
        "table_bucket": recorded.catalog.name,
        "namespace": display(recorded.namespace.levels),
        "table": entry.name,
        "table_id": entry.id,
        "current_metadata_location": entry.metadata_at,
        "current_version_token": entry.version_token,
        "current_generation": entry.generation,
        "line_status": recorded.line.status,
        "commit_log_count": recorded.commits.records,
        "commits": recorded.line.findings,
        **_counts(recorded),
        "finalized_count": 0,
    }


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    recorded, metadata = found.recorded, found.metadata
    export = _export(recorded)
    return {
        "catalog": export,
        "current_metadata_status": metadata.status,
        "current_metadata_reason": metadata.reason,
        "recovery_status": found.status,
        "recommended_actions": found.actions,
        "commit_recovery": _commit_recovery(recorded),
        "backing_manifest": export["backing_manifest"],
        "metadata": {
            "size_bytes": metadata.size_bytes,
            "snapshot_count": metadata.snapshots,
            "log_entry_count": metadata.log_entries,
            "missing_log_locations": metadata.missing_log_files,
            "disagreements_with_record": metadata.disagreements,
            "directories_not_on_record": metadata.missing_directories,
        },
        "orphan_metadata_candidate_locations": found.orphans,
        "orphan_metadata_candidates_complete": found.orphans_complete,
    }


def _migration(inventory: CatalogInventory) -> dict[str, Any]:
    return {
        "table_bucket": inventory.catalog.name,
        "source_kind": BACKING,
        "target_kind": BACKING,
        "status": ALREADY_STRONG,
        "store": inventory.store,
        "namespace_count": inventory.namespaces,
        "table_count": inventory.tables,
        "view_count": inventory.views,
        "generic_table_count": inventory.generic_tables,
        "dropped_count": inventory.dropped,
        "commit_log_count": inventory.commits,
        "idempotency_index_count": inventory.client_ids,
        "warehouse_prefix_count": inventory.directories,
        "warehouse_index_ready": inventory.unplaced == 0 and inventory.overlapping == 0,
        "object_backed_writes_fenced": False,
        "ready_to_enable_durable_strong": not inventory.blockers,
        "blockers": inventory.blockers,
        "recommended_actions": inventory.actions,
        "rollback": {
            "backing_config_key": None,
            "current_backing_value": BACKING,
            "rollback_backing_value": None,
            "preserves_object_backed_catalog": False,
            "requires_operator_restart": False,
        },
        "reason": "the catalog has one backing, a transactional store: there is nothing to migrate to",
    }


_CATALOG = TABLE_PATH + "/catalog"
_MIGRATION = "/v1/{warehouse}/catalog/migration"

ROUTES = (
    Route("exportTable", "GET", _CATALOG + "/export", export_table, is_standard=False),
    Route("diagnoseTable", "GET", _CATALOG + "/diagnostics", diagnose_table, is_standard=False),
    Route("recoverTable", "POST", _CATALOG + "/recovery", recover_table, is_standard=False),
    Route("getMigration", "GET", _MIGRATION, get_migration, is_standard=False),
    Route("startMigration", "POST", _MIGRATION, start_migration, is_standard=False),
    Route("cancelMigration", "DELETE", _MIGRATION, cancel_migration, is_standard=False),
)
