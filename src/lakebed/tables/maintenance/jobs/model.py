"""The values of maintenance: jobs, what they found of each file, and what became of them. Stored as they are here."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from .config import DEFAULT_CONFIG, ConfigSource, MaintenanceConfig

__all__ = [
    "MAX_LISTED",
    "Action",
    "Actor",
    "AuditEvent",
    "CompactionReport",
    "CompactionStatus",
    "Counts",
    "ExpirationReport",
    "ExpirationStatus",
    "Findings",
    "GraphReport",
    "GraphStatus",
    "Job",
    "JobRecord",
    "JobStatus",
    "ObjectKind",
    "ObjectReport",
    "ObjectState",
    "Operation",
    "Reason",
    "RewriteGroup",
    "RowLevelReport",
    "SnapshotReport",
    "SnapshotState",
    "Step",
]

MAX_LISTED: Final = 1000
"""How many of each kind of finding a report lists; its counts are of all."""


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


class ObjectKind(StrEnum):
    """What a file of a table is."""

    METADATA_FILE = "METADATA_FILE"
    MANIFEST_LIST = "MANIFEST_LIST"
    MANIFEST_FILE = "MANIFEST_FILE"
    DATA_FILE = "DATA_FILE"
    DELETE_FILE = "DELETE_FILE"
    STATISTICS_FILE = "STATISTICS_FILE"


class ObjectState(StrEnum):
    """What is to become of a file, or became of it."""

    RETAINED = "RETAINED"
    PENDING_SAFETY_WINDOW = "PENDING_SAFETY_WINDOW"
    DELETABLE = "DELETABLE"
    DELETED = "DELETED"
    QUARANTINED = "QUARANTINED"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class Reason(StrEnum):
    """Why a file, or the table, is judged as it is."""

    CURRENT_METADATA = "CURRENT_METADATA"
    METADATA_LOG = "METADATA_LOG"
    PROTECTED_SNAPSHOT_REF = "PROTECTED_SNAPSHOT_REF"
    RECENT_METADATA = "RECENT_METADATA"
    NO_CURRENT_REACHABILITY = "NO_CURRENT_REACHABILITY"
    SAFETY_WINDOW_PENDING = "SAFETY_WINDOW_PENDING"
    SAFETY_WINDOW_SATISFIED = "SAFETY_WINDOW_SATISFIED"
    DELETED_BY_MAINTENANCE = "DELETED_BY_MAINTENANCE"
    MANIFEST_LIST = "MANIFEST_LIST"
    MANIFEST_FILE = "MANIFEST_FILE"
    DATA_FILE = "DATA_FILE"
    DELETE_FILE = "DELETE_FILE"
    STATISTICS_FILE = "STATISTICS_FILE"
    UNSUPPORTED_MANIFEST_AVRO = "UNSUPPORTED_MANIFEST_AVRO"
    UNREADABLE_METADATA = "UNREADABLE_METADATA"
    QUARANTINE_ENABLED = "QUARANTINE_ENABLED"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    MISSING_OBJECT = "MISSING_OBJECT"
    """Something refers to a file that is not there."""
    GC_DISABLED = "GC_DISABLED"
    """The table's property `gc.enabled` is false: other tables may need its files."""
    NEWER_THAN_CURRENT = "NEWER_THAN_CURRENT"
    """A metadata file is ahead of the table, and this catalog has not committed it: somebody else writes here."""
    OUTSIDE_TABLE = "OUTSIDE_TABLE"
    """A manifest or its list lies outside the table's directories, and is not read."""
    TOO_MANY_FILES = "TOO_MANY_FILES"
    """There is more to read than one job reads."""
    CHANGED_SINCE_PLAN = "CHANGED_SINCE_PLAN"
    IN_USE = "IN_USE"
    """The file is the current metadata of another table or view."""


class GraphStatus(StrEnum):
    """Whether all that a table refers to is known."""

    COMPLETE = "COMPLETE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class ExpirationStatus(StrEnum):
    """What came of a plan to expire snapshots."""

    NO_CANDIDATES = "NO_CANDIDATES"
    CANDIDATES = "CANDIDATES"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"
    COMMITTED = "COMMITTED"


class SnapshotState(StrEnum):
    """What is to become of a snapshot."""

    RETAINED = "RETAINED"
    EXPIRATION_CANDIDATE = "EXPIRATION_CANDIDATE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class CompactionStatus(StrEnum):
    """What came of a plan to compact."""

    NO_CANDIDATES = "NO_CANDIDATES"
    REWRITE_CANDIDATES = "REWRITE_CANDIDATES"
    QUEUED_FOR_PIPELINE = "QUEUED_FOR_PIPELINE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New fields have defaults: rows of old releases lack them."""


class Counts(_Value, frozen=True):
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


class Job(_Value, frozen=True):
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
    """Given out anew with every claim: what a worker does under an older one is refused."""
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
    def lease_ms(self) -> int:
        """How long it is somebody's without a sign of life."""
        return self.config.worker_lease_timeout_seconds * 1000


class AuditEvent(_Value, frozen=True):
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


class JobRecord(_Value, frozen=True):
    """A job and all that was done to it, oldest first."""

    job: Job
    audit: tuple[AuditEvent, ...] = ()


class ObjectReport(_Value, frozen=True):
    """What is known and decided of a file."""

    location: str
    kind: ObjectKind
    state: ObjectState
    reasons: tuple[Reason, ...] = ()
    size: int | None = None
    modified_ms: int | None = None


class GraphReport(_Value, frozen=True):
    """What a table refers to."""

    status: GraphStatus = GraphStatus.COMPLETE
    metadata_files: int = 0
    snapshots: int = 0
    manifest_lists: int = 0
    manifests: int = 0
    data_files: int = 0
    delete_files: int = 0
    statistics_files: int = 0
    reasons: tuple[Reason, ...] = ()
    problems: tuple[ObjectReport, ...] = ()


class SnapshotReport(_Value, frozen=True):
    """What is decided of a snapshot."""

    snapshot_id: int
    timestamp_ms: int
    state: SnapshotState
    reasons: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


class ExpirationReport(_Value, frozen=True):
    """A plan to expire snapshots, and what came of it."""

    status: ExpirationStatus
    min_snapshots_to_keep: int
    max_snapshot_age_ms: int
    """Both as they were applied: the request's, unless the table's own properties keep more."""
    snapshots: tuple[SnapshotReport, ...] = ()
    candidates: tuple[int, ...] = ()
    expired_refs: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    expired_snapshot_ids: tuple[int, ...] = ()
    committed_metadata_at: str = ""


class RewriteGroup(_Value, frozen=True):
    """Files that would become one job of rewriting."""

    id: str
    spec_id: int
    sort_order_id: int | None
    input_locations: tuple[str, ...]
    input_files: int
    input_bytes: int


class RowLevelReport(_Value, frozen=True):
    """The delete files that a rewrite has to take into account."""

    position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    delete_locations: tuple[str, ...] = ()

    @property
    def delete_files(self) -> int:
        """All of them."""
        return self.position_delete_files + self.equality_delete_files + self.deletion_vectors


class CompactionReport(_Value, frozen=True):
    """A plan to compact, and what came of it."""

    status: CompactionStatus
    target_file_size_bytes: int
    small_file_threshold_bytes: int
    min_input_files: int
    max_rewrite_bytes_per_job: int
    snapshot_id: int | None = None
    candidate_files: int = 0
    candidate_bytes: int = 0
    groups: tuple[RewriteGroup, ...] = ()
    group_count: int = 0
    row_level: RowLevelReport = RowLevelReport()
    reasons: tuple[Reason, ...] = ()
    task_id: int | None = None


class Findings(_Value, frozen=True):
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
