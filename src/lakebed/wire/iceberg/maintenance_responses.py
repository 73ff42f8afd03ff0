"""Maintenance jobs and their reports as JSON.

Field names mix underscores and hyphens, as existing clients of table buckets expect. The job id has both spellings,
because clients differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.identifiers import display
from lakebed.catalog.maintenance.jobs.config import EffectiveConfig
from lakebed.catalog.maintenance.jobs.model import AuditEvent, JobRecord, MaintenanceJob
from lakebed.catalog.maintenance.jobs.quarantine import QuarantinedFile
from lakebed.catalog.maintenance.jobs.scheduling import SchedulerView
from lakebed.catalog.maintenance.jobs.service import JobView
from lakebed.catalog.maintenance.reachability.files import GraphReport, ObjectReport, ObjectState
from lakebed.catalog.maintenance.rules.compaction import CompactionReport, CompactionStatus, RowLevelReport
from lakebed.catalog.maintenance.rules.expiration import ExpirationReport
from lakebed.meta.tasks import Task, TaskState

Document = dict[str, Any]
"""JSON. Any: fields are of many types."""

COMMITTED: Final = "COMMITTED"
"""The status of a compaction that the pipeline has committed."""


def config_document(effective: EffectiveConfig) -> Document:
    """A configuration with its source."""
    return {**msgspec.to_builtins(effective.config), "source": effective.source}


def report_document(view: JobView) -> Document:
    """A job with its report."""
    findings = view.stored.findings
    metadata, objects = findings.metadata, findings.objects
    candidates = [one for one in metadata if one.state is not ObjectState.RETAINED]
    return {
        "job": job_document(view.known, view.stored.job),
        "current_metadata_location": findings.metadata_at or view.known.entry.metadata_at,
        "retained_metadata_locations": findings.retained_metadata,
        "cleanup_candidate_locations": _locations(candidates),
        "deletable_metadata_locations": _locations(metadata, ObjectState.DELETABLE),
        "cleanup-object-candidate-locations": _locations(objects),
        "deletable-object-locations": _locations(objects, ObjectState.DELETABLE),
        "object_reports": [_object(one) for one in metadata],
        "object-cleanup-reports": [_object(one) for one in objects],
        "referenced_object_reports": [_object(one) for one in findings.referenced],
        "reachability-graph": None if findings.graph is None else _graph(findings.graph),
        "snapshot-expiration": None if findings.expiration is None else _expiration(findings.expiration),
        "compaction": None if findings.compaction is None else _compaction(findings.compaction, view.task),
        "truncated": findings.truncated,
        "audit-events": [_event(event) for event in view.stored.record.audit],
    }


def job_document(known: LiveEntry, job: MaintenanceJob) -> Document:
    """A job."""
    counts = job.counts
    return {
        "job-id": job.id,
        "job_id": job.id,
        **_table(known),
        "operation": job.operation,
        "status": job.status,
        "failure_reason": job.failure_reason or None,
        "recommended-actions": job.actions,
        "config_source": job.config_source,
        "scheduler-id": job.scheduler_id or None,
        "scheduler-lease-id": job.scheduler_lease_id or None,
        "scheduled-at": rfc3339(job.scheduled_ms),
        "worker_id": job.worker_id or None,
        "lease_id": job.lease_id or None,
        "attempt": job.attempt,
        "max-retry-attempts": job.max_attempts,
        "next-retry-after": rfc3339(job.next_retry_ms),
        "quarantine-enabled": job.config.quarantine_enabled,
        "quarantine-retention-seconds": job.config.quarantine_retention_seconds,
        "heartbeat_at": rfc3339(job.heartbeat_ms),
        "started_at": rfc3339(job.started_ms),
        "finished_at": rfc3339(job.finished_ms),
        "current_metadata_location": job.metadata_at or None,
        "current_generation": job.generation,
        "retain_recent_metadata_files": job.retain_recent,
        "safety_window_seconds": job.safety_window_ms // 1000,
        "cleanup_watermark_unix_seconds": job.watermark_ms // 1000,
        "planned_metadata_file_count": counts.planned_metadata_files,
        "retained_metadata_file_count": counts.retained_metadata_files,
        "deletable_metadata_file_count": counts.deletable_metadata_files,
        "deleted_metadata_file_count": counts.deleted_metadata_files,
        "cleanup_candidate_count": counts.cleanup_candidates,
        "planned_object_file_count": counts.planned_object_files,
        "cleanup_candidate_object_count": counts.cleanup_candidate_objects,
        "deletable_object_count": counts.deletable_objects,
        "deleted_object_count": counts.deleted_objects,
        "quarantined_object_count": counts.quarantined_objects,
        "unrecognized_object_count": counts.unrecognized_objects,
    }


def scheduler_document(known: LiveEntry, view: SchedulerView) -> Document:
    """The state of a table's maintenance."""
    config = view.effective.config
    return {
        **_table(known),
        "status": view.status,
        "config_source": view.effective.source,
        "background_enabled": config.background_enabled,
        "worker_paused": config.worker_paused,
        "delete_enabled": config.delete_enabled,
        "worker_lease_timeout_seconds": config.worker_lease_timeout_seconds,
        "max_retry_attempts": config.max_retry_attempts,
        "retry_initial_backoff_seconds": config.retry_initial_backoff_seconds,
        "retry_max_backoff_seconds": config.retry_max_backoff_seconds,
        "recommended_actions": view.actions,
        "current_job": None if view.current is None else job_document(known, view.current),
        "quarantine": {
            "enabled": config.quarantine_enabled,
            "active": view.held.objects > 0,
            "retention_seconds": config.quarantine_retention_seconds,
            "quarantined_object_count": view.held.objects,
            "source_job_id": view.held.source_job,
        },
        "audit_timeline": [_timeline_entry(record) for record in view.timeline],
    }


def quarantine_documents(files: Sequence[QuarantinedFile]) -> list[Document]:
    """The files of a job in quarantine."""
    return [
        {
            "key": one.key,
            "held-key": one.held_key,
            "object_kind": one.kind,
            "size": one.size,
            "moved-at": rfc3339(one.moved_ms),
            "purge-at": rfc3339(one.purge_ms),
        }
        for one in files
    ]


def _table(known: LiveEntry) -> Document:
    return {
        "table_bucket": known.catalog.name,
        "namespace": display(known.namespace.levels),
        "table": known.entry.name,
        "table_id": known.entry.id,
    }


def _timeline_entry(record: JobRecord) -> Document:
    job = record.job
    return {
        "job_id": job.id,
        "operation": job.operation,
        "status": job.status,
        "scheduler-id": job.scheduler_id or None,
        "scheduled-at": rfc3339(job.scheduled_ms),
        "worker_id": job.worker_id or None,
        "attempt": job.attempt,
        "started_at": rfc3339(job.started_ms),
        "finished_at": rfc3339(job.finished_ms),
        "heartbeat_at": rfc3339(job.heartbeat_ms),
        "next_retry_after": rfc3339(job.next_retry_ms),
        "recommended_actions": job.actions,
        "audit-events": [_event(event) for event in record.audit],
    }


def _event(event: AuditEvent) -> Document:
    return {
        "timestamp": rfc3339(event.at_ms),
        "actor": event.actor,
        "action": event.step,
        "reason": event.reason or None,
        "before-status": event.before,
        "after-status": event.after,
        "before-quarantined-object-count": event.quarantined_before,
        "after-quarantined-object-count": event.quarantined_after,
        "recommended-actions": event.actions,
    }


def _object(report: ObjectReport) -> Document:
    return {
        "location": report.location,
        "object_kind": report.kind,
        "state": report.state,
        "reasons": report.reasons,
        "size": report.size,
        "modified-at": rfc3339(report.modified_ms),
    }


def _graph(graph: GraphReport) -> Document:
    return {
        "status": graph.status,
        "metadata_file_count": graph.metadata_files,
        "snapshot_count": graph.snapshots,
        "manifest_list_count": graph.manifest_lists,
        "manifest_file_count": graph.manifests,
        "data_file_count": graph.data_files,
        "delete_file_count": graph.delete_files,
        "statistics_file_count": graph.statistics_files,
        "reasons": graph.reasons,
        "manual_review_reports": [_object(problem) for problem in graph.problems],
    }


def _expiration(report: ExpirationReport) -> Document:
    return {
        "status": report.status,
        "min-snapshots-to-keep": report.min_snapshots_to_keep,
        "max-snapshot-age-ms": report.max_snapshot_age_ms,
        "candidate_snapshot_ids": report.candidates,
        "expired_snapshot_ids": report.expired_snapshot_ids,
        "expired_refs": report.expired_refs,
        "committed_metadata_location": report.committed_metadata_at or None,
        "reasons": report.reasons,
        "snapshots": [
            {
                "snapshot-id": one.snapshot_id,
                "timestamp-ms": one.timestamp_ms,
                "state": one.state,
                "reasons": one.reasons,
                "refs": one.refs,
            }
            for one in report.snapshots
        ],
    }


def _compaction(report: CompactionReport, task: Task | None) -> Document:
    is_done = task is not None and task.state is TaskState.DONE
    return {
        # The current status of a queued compaction.
        "status": COMMITTED if is_done else report.status,
        "snapshot-id": report.snapshot_id,
        "target-file-size-bytes": report.target_file_size_bytes,
        "small-file-threshold-bytes": report.small_file_threshold_bytes,
        "min-input-files": report.min_input_files,
        "max-rewrite-bytes-per-job": report.max_rewrite_bytes_per_job,
        "candidate-file-count": report.candidate_files,
        "candidate-bytes": report.candidate_bytes,
        "rewrite-group-count": report.group_count,
        "rewrite-groups": [
            {
                "group_id": group.id,
                "partition-spec-id": group.spec_id,
                "sort-order-id": group.sort_order_id,
                "input-file-locations": group.input_locations,
                "input-file-count": group.input_files,
                "input-bytes": group.input_bytes,
                # Unknown until the pipeline has written them.
                "output-file-location": None,
                "output-bytes": None,
            }
            for group in report.groups
        ],
        "row-level-planning": _row_level(report.row_level, report.status),
        "reasons": report.reasons,
        "task-id": report.task_id,
        "task": None if task is None else _task(task),
    }


def _row_level(report: RowLevelReport, status: CompactionStatus) -> Document:
    reasons = [
        reason
        for reason, count in (
            ("POSITION_DELETE_FILES", report.position_delete_files),
            ("EQUALITY_DELETE_FILES", report.equality_delete_files),
            ("DELETION_VECTORS", report.deletion_vectors),
        )
        if count
    ]
    needs_review = status is CompactionStatus.MANUAL_REVIEW_REQUIRED
    return {
        # The rewrite applies deletes, so they do not prevent a compaction.
        "status": status if needs_review else "APPLIED_BY_REWRITE" if report.delete_files else "NO_DELETE_FILES",
        "delete-file-count": report.delete_files,
        "position-delete-file-count": report.position_delete_files + report.deletion_vectors,
        "equality-delete-file-count": report.equality_delete_files,
        "deletion-vector-count": report.deletion_vectors,
        "manual-review-count": report.delete_files if needs_review else 0,
        "reasons": reasons,
        "delete-files": report.delete_locations,
    }


def _task(task: Task) -> Document:
    is_done = task.state is TaskState.DONE
    return {
        "id": task.id,
        "kind": task.kind,
        "state": task.state,
        "attempts": task.attempts,
        "worker": task.worker,
        "changed-at": rfc3339(task.changed_ms),
        "report": msgspec.Raw(task.outcome) if is_done and task.outcome else None,
        "failure": None if is_done or task.outcome is None else task.outcome.decode(errors="replace"),
    }


def _locations(reports: Iterable[ObjectReport], state: ObjectState | None = None) -> list[str]:
    return [one.location for one in reports if state is None or one.state is state]


def rfc3339(milliseconds: int | None) -> str | None:
    """A time in milliseconds as RFC 3339 text; None without one."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
