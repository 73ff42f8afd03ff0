"""Reports on the catalog itself: what it has on record of a table, how the table is, and what can be put right.

Every value is read or counted when it is asked for. What is a matter of design, such as how commits are made durable,
is said in words of our own; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lakebed.catalog.diagnostics.catalog_inventory import CatalogInventory
from lakebed.catalog.diagnostics.commit_chain import RecoveryState
from lakebed.catalog.diagnostics.recovery_status import log_blockers, log_status
from lakebed.catalog.diagnostics.table_diagnostics import Diagnosis, RecordedState
from lakebed.catalog.identifiers import display
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import EmptyDocument, read_strict_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..services import IcebergServices
from .tables import TABLE_PATH

BACKING: Final = "STRONG_KV_WAL"
"""The label under which clients know a catalog whose commits are transactions of one strongly consistent store."""

ALREADY_STRONG: Final = "ALREADY_STRONG"
"""Said of a catalog that has nothing to be moved to: there is one backing, and it is that one."""

_VERSION: Final = 1


async def export_table(services: IcebergServices, request: JsonRequest) -> Response:
    """What the catalog has on record of a table."""
    recorded = await services.extensions.examination.recorded(request.caller, request.catalog, request.table)
    return ok(_export(recorded))


async def diagnose_table(services: IcebergServices, request: JsonRequest) -> Response:
    """How a table is."""
    found = await services.extensions.examination.diagnose(request.caller, request.catalog, request.table)
    return ok(_diagnosis(found))


async def recover_table(services: IcebergServices, request: JsonRequest) -> Response:
    """Put right what can be. A recovery has no options: the body is ignored."""
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
    """What a move of the catalog would find."""
    survey = await services.extensions.surveys.survey(request.caller, request.catalog)
    return ok(_migration(survey))


async def start_migration(services: IcebergServices, request: JsonRequest) -> Response:
    """There is nothing to move: the same report, with a digest of what was found."""
    await read_strict_document(request, EmptyDocument)
    fingerprint = await services.extensions.surveys.fingerprint(request.caller, request.catalog)
    survey = await services.extensions.surveys.survey(request.caller, request.catalog)
    return ok({**_migration(survey), "source_fingerprint": fingerprint})


async def cancel_migration(services: IcebergServices, request: JsonRequest) -> Response:
    """No move ever begins, so none holds writes back."""
    await read_strict_document(request, EmptyDocument)
    catalog = await services.extensions.surveys.authorize_change(request.caller, request.catalog)
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
            "created_at": _moment(catalog.created_ms),
        },
        "namespace": {
            "version": _VERSION,
            "table_bucket": catalog.name,
            "namespace": display(namespace.levels),
            "namespace_levels": namespace.levels,
            "namespace_id": str(namespace.id),
            "state": "ACTIVE",
            "properties": namespace.properties,
            "created_at": _moment(recorded.namespace_created_ms),
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
            "created_at": _moment(entry.created_ms),
            "updated_at": _moment(entry.updated_ms),
        },
    }
    if recorded.origin is not None:
        parts["import"] = {
            "metadata_location": recorded.origin.metadata_at,
            "external_version_token": recorded.origin.external_token,
            "imported_by": recorded.origin.principal,
            "imported_at": _moment(recorded.origin.imported_ms),
        }
    return {**parts, "backing_manifest": _backing_manifest(recorded, parts)}


def _backing_manifest(recorded: RecordedState, parts: Mapping[str, object]) -> dict[str, Any]:
    entry, line, commits = recorded.entry, recorded.line, recorded.commits
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
                "status": log_status(line),
                "commit_log_prefix": f"entry_commits/{entry.id}",
                "idempotency_index_prefix": f"entry_commits_by_id/{entry.id}",
                "committed_generation": entry.generation,
                "commit_log_count": commits.records,
                "line_status": line.status,
                **_counts(recorded),
            },
        },
        "migration": {
            "source_kind": BACKING,
            "target_kind": BACKING,
            "status": ALREADY_STRONG,
            "required_steps": [],
            "blockers": log_blockers(line),
        },
        "ha": {
            "metadata_store": recorded.store,
            "servers_may_share_the_store": recorded.store == "postgres",
            "active_chore_holder_count": len(recorded.lease_holders),
            "logged_writer_count": commits.writers,
        },
        "scale_validation": {
            "commit_log_count": commits.records,
            "first_commit_at": None if commits.first_ms is None else _moment(commits.first_ms),
            "last_commit_at": None if commits.last_ms is None else _moment(commits.last_ms),
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
    line = recorded.line
    return {
        "staged_before_table_update_count": line.count(RecoveryState.STAGED_BEFORE_TABLE_UPDATE),
        "finalization_required_count": line.count(RecoveryState.FINALIZATION_REQUIRED),
        "idempotency_repair_required_count": line.conflicting_ids,
        "manual_review_count": line.count(RecoveryState.MANUAL_REVIEW),
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


def _migration(survey: CatalogInventory) -> dict[str, Any]:
    return {
        "table_bucket": survey.catalog.name,
        "source_kind": BACKING,
        "target_kind": BACKING,
        "status": ALREADY_STRONG,
        "store": survey.store,
        "namespace_count": survey.namespaces,
        "table_count": survey.tables,
        "view_count": survey.views,
        "generic_table_count": survey.generic_tables,
        "dropped_count": survey.dropped,
        "commit_log_count": survey.commits,
        "idempotency_index_count": survey.client_ids,
        "warehouse_prefix_count": survey.directories,
        "warehouse_index_ready": survey.unplaced == 0 and survey.overlapping == 0,
        "object_backed_writes_fenced": False,
        "ready_to_enable_durable_strong": not survey.blockers,
        "blockers": survey.blockers,
        "recommended_actions": survey.actions,
        "rollback": {
            "backing_config_key": None,
            "current_backing_value": BACKING,
            "rollback_backing_value": None,
            "preserves_object_backed_catalog": False,
            "requires_operator_restart": False,
        },
        "reason": "the catalog has one backing, which is transactional: there is nothing to migrate to",
    }


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
