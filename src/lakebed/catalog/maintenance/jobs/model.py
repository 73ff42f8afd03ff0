"""The values of maintenance jobs: what was requested, what was found, and each step. Stored as they are here."""

from __future__ import annotations

from enum import StrEnum

from ..reachability.files import GraphReport, ObjectReport, ReportValue
from ..rules.compaction import CompactionReport
from ..rules.expiration import ExpirationReport
from .config import DEFAULT_CONFIG, ConfigSource, MaintenanceConfig

__all__ = [
    "Actor",
    "AuditEvent",
    "AuditStep",
    "FileCounts",
    "Findings",
    "JobRecord",
    "JobStatus",
    "MaintenanceJob",
    "RecommendedAction",
    "RemovalMode",
]


class JobStatus(StrEnum):
    """The status of a job. The last two are of reports on maintenance that did not run."""

    NOT_YET_RUN = "NOT_YET_RUN"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"
    DISABLED = "DISABLED"
    PAUSED = "PAUSED"


class RemovalMode(StrEnum):
    """Whether a job removes files or only reports them."""

    DRY_RUN = "DRY_RUN"
    DELETE = "DELETE"


class RecommendedAction(StrEnum):
    """Actions recommended to operators."""

    NO_ACTION_REQUIRED = "NO_ACTION_REQUIRED"
    RUN_MAINTENANCE_WORKER = "RUN_MAINTENANCE_WORKER"
    REVIEW_AND_RUN_DELETE = "REVIEW_AND_RUN_DELETE"
    REVIEW_QUARANTINE = "REVIEW_QUARANTINE"
    ENABLE_DELETE = "ENABLE_DELETE"
    ENABLE_BACKGROUND_MAINTENANCE = "ENABLE_BACKGROUND_MAINTENANCE"
    RESUME_MAINTENANCE_WORKER = "RESUME_MAINTENANCE_WORKER"
    WAIT_FOR_RETRY_BACKOFF = "WAIT_FOR_RETRY_BACKOFF"
    WAIT_FOR_ACTIVE_WORKER = "WAIT_FOR_ACTIVE_WORKER"
    INVESTIGATE_FAILURE = "INVESTIGATE_FAILURE"


class Actor(StrEnum):
    """Who took a step."""

    SCHEDULER = "SCHEDULER"
    WORKER = "WORKER"
    OPERATOR = "OPERATOR"


class AuditStep(StrEnum):
    """A step in the audit of a job."""

    PLANNED = "PLANNED"
    WORKER_CONTROL = "WORKER_CONTROL"
    SCHEDULER_CONTROL = "SCHEDULER_CONTROL"
    SCHEDULER_QUEUED = "SCHEDULER_QUEUED"
    SCHEDULER_LEASE_EXPIRED = "SCHEDULER_LEASE_EXPIRED"
    WORKER_STARTED = "WORKER_STARTED"
    WORKER_HEARTBEAT = "WORKER_HEARTBEAT"
    WORKER_LEASE_EXPIRED = "WORKER_LEASE_EXPIRED"
    WORKER_SUCCEEDED = "WORKER_SUCCEEDED"
    WORKER_FAILED = "WORKER_FAILED"
    QUARANTINE_RELEASE = "QUARANTINE_RELEASE"
    QUARANTINE_RETRY = "QUARANTINE_RETRY"
    QUARANTINE_ABANDON = "QUARANTINE_ABANDON"
    QUARANTINE_PURGED = "QUARANTINE_PURGED"


class FileCounts(ReportValue, frozen=True):
    """Numbers of files, including those that reports do not list."""

    planned_metadata_files: int = 0
    retained_metadata_files: int = 0
    deletable_metadata_files: int = 0
    deleted_metadata_files: int = 0
    cleanup_candidates: int = 0
    planned_object_files: int = 0
    cleanup_candidate_objects: int = 0
    deletable_objects: int = 0
    deleted_objects: int = 0
    quarantined_objects: int = 0
    """In quarantine now, metadata files included."""
    unrecognized_objects: int = 0
    """In the table's directories, but not named like files of tables: never removed."""


class MaintenanceJob(ReportValue, frozen=True):
    """A job and its state."""

    id: str
    entry: str
    operation: RemovalMode
    status: JobStatus
    config_source: ConfigSource = ConfigSource.DEFAULT
    config: MaintenanceConfig = DEFAULT_CONFIG
    """The configuration at the time of planning."""
    failure_reason: str = ""
    scheduler_id: str = ""
    scheduler_lease_id: str = ""
    scheduled_ms: int | None = None
    worker_id: str = ""
    lease_id: str = ""
    """The lease that its worker holds or held last: requests with another one are refused."""
    attempt: int = 0
    max_attempts: int = 0
    next_retry_ms: int | None = None
    heartbeat_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    metadata_at: str = ""
    generation: int = 0
    version_token: str = ""
    """The version of the table that was planned."""
    retain_recent: int = 0
    safety_window_ms: int = 0
    watermark_ms: int = 0
    """Younger files are kept."""
    counts: FileCounts = FileCounts()
    actions: tuple[RecommendedAction, ...] = ()

    @property
    def lease_seconds(self) -> int:
        """The length of its lease."""
        return self.config.worker_lease_timeout_seconds


class AuditEvent(ReportValue, frozen=True):
    """A step in the audit."""

    at_ms: int
    actor: Actor
    step: AuditStep
    reason: str = ""
    before: JobStatus | None = None
    after: JobStatus | None = None
    quarantined_before: int = 0
    quarantined_after: int = 0
    actions: tuple[RecommendedAction, ...] = ()


class JobRecord(ReportValue, frozen=True):
    """A job and its audit, oldest step first."""

    job: MaintenanceJob
    audit: tuple[AuditEvent, ...] = ()


class Findings(ReportValue, frozen=True):
    """The listed findings of a job."""

    metadata_at: str = ""
    retained_metadata: tuple[str, ...] = ()
    metadata: tuple[ObjectReport, ...] = ()
    objects: tuple[ObjectReport, ...] = ()
    referenced: tuple[ObjectReport, ...] = ()
    graph: GraphReport | None = None
    expiration: ExpirationReport | None = None
    compaction: CompactionReport | None = None
    truncated: bool = False
    """Whether there are more findings than listed."""
    pending: bool = False
    """Whether more files become removable with time."""
