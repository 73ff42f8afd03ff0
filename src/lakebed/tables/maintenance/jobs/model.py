"""The values of maintenance jobs: what was requested, what was found, and each step. Stored as they are here."""

from __future__ import annotations

from enum import StrEnum

from ..reachability.files import GraphReport, ObjectReport, ReportValue
from ..rules.compaction import CompactionReport
from ..rules.expiration import ExpirationReport
from .config import DEFAULT_CONFIG, ConfigSource, MaintenanceConfig

__all__ = ["Action", "Actor", "AuditEvent", "Counts", "Findings", "Job", "JobRecord", "JobStatus", "Operation", "Step"]


class JobStatus(StrEnum):
    """Where a job is in its life. The last two are of reports that no job was run, and why."""

    NOT_YET_RUN = "NOT_YET_RUN"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"
    DISABLED = "DISABLED"
    PAUSED = "PAUSED"


class Operation(StrEnum):
    """What a job is to do with what it finds."""

    DRY_RUN = "DRY_RUN"
    DELETE = "DELETE"


class Action(StrEnum):
    """What an operator might do next."""

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
    """Who did something."""

    SCHEDULER = "SCHEDULER"
    WORKER = "WORKER"
    OPERATOR = "OPERATOR"


class Step(StrEnum):
    """What was done, as the audit has it."""

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


class Counts(ReportValue, frozen=True):
    """How many files, of all that there are."""

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
    """Held aside now, metadata files included."""
    unrecognized_objects: int = 0
    """In the table's directories, and not named as files of tables are: they are left alone."""


class Job(ReportValue, frozen=True):
    """A job, as the state machine knows it."""

    id: str
    entry: str
    operation: Operation
    status: JobStatus
    config_source: ConfigSource = ConfigSource.DEFAULT
    config: MaintenanceConfig = DEFAULT_CONFIG
    """What was configured when it was planned."""
    failure_reason: str = ""
    scheduler_id: str = ""
    scheduler_lease_id: str = ""
    scheduled_ms: int | None = None
    worker_id: str = ""
    lease_id: str = ""
    """Of the lease that its worker holds, or held last: what is done under another one is refused."""
    attempt: int = 0
    max_attempts: int = 0
    next_retry_ms: int | None = None
    heartbeat_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    metadata_at: str = ""
    generation: int = 0
    version_token: str = ""
    """The version of the table that the plan is of."""
    retain_recent: int = 0
    safety_window_ms: int = 0
    watermark_ms: int = 0
    """Files that are younger were not planned to go."""
    counts: Counts = Counts()
    actions: tuple[Action, ...] = ()

    @property
    def lease_seconds(self) -> int:
        """How long its scheduler or worker holds it without a heartbeat."""
        return self.config.worker_lease_timeout_seconds


class AuditEvent(ReportValue, frozen=True):
    """Something that was done to a job."""

    at_ms: int
    actor: Actor
    step: Step
    reason: str = ""
    before: JobStatus | None = None
    after: JobStatus | None = None
    quarantined_before: int = 0
    quarantined_after: int = 0
    actions: tuple[Action, ...] = ()


class JobRecord(ReportValue, frozen=True):
    """A job and all that was done to it, oldest first."""

    job: Job
    audit: tuple[AuditEvent, ...] = ()


class Findings(ReportValue, frozen=True):
    """What a job found, as far as it is listed."""

    metadata_at: str = ""
    retained_metadata: tuple[str, ...] = ()
    metadata: tuple[ObjectReport, ...] = ()
    objects: tuple[ObjectReport, ...] = ()
    referenced: tuple[ObjectReport, ...] = ()
    graph: GraphReport | None = None
    expiration: ExpirationReport | None = None
    compaction: CompactionReport | None = None
    truncated: bool = False
    """Whether more was found than is listed."""
    pending: bool = False
    """Whether more becomes removable by waiting."""
