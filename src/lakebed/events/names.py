"""Names of S3 events, and their bit masks. Pure.

Each name has an ordinal, its position in `EventName`. A single event has the bit `1 << (ordinal - 1)` of a 64-bit mask;
a wildcard name has the bits of its members. Ordinals must not change: the masks of buckets are stored.

The outbox stores an event's kind: its name without `s3:`, and for bucket events without the wildcard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from lakebed.core.errors import InvalidInput

PREFIX: Final = "s3:"


class EventName(StrEnum):
    """All names, in order of ordinals."""

    OBJECT_ACCESSED_GET = "s3:ObjectAccessed:Get"
    OBJECT_ACCESSED_GET_RETENTION = "s3:ObjectAccessed:GetRetention"
    OBJECT_ACCESSED_GET_LEGAL_HOLD = "s3:ObjectAccessed:GetLegalHold"
    OBJECT_ACCESSED_HEAD = "s3:ObjectAccessed:Head"
    OBJECT_ACCESSED_ATTRIBUTES = "s3:ObjectAccessed:Attributes"
    OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD = "s3:ObjectCreated:CompleteMultipartUpload"
    OBJECT_CREATED_COPY = "s3:ObjectCreated:Copy"
    OBJECT_CREATED_POST = "s3:ObjectCreated:Post"
    OBJECT_CREATED_PUT = "s3:ObjectCreated:Put"
    OBJECT_CREATED_PUT_RETENTION = "s3:ObjectCreated:PutRetention"
    OBJECT_CREATED_PUT_LEGAL_HOLD = "s3:ObjectCreated:PutLegalHold"
    OBJECT_TAGGING_PUT = "s3:ObjectTagging:Put"
    OBJECT_TAGGING_DELETE = "s3:ObjectTagging:Delete"
    OBJECT_REMOVED_DELETE = "s3:ObjectRemoved:Delete"
    OBJECT_REMOVED_DELETE_MARKER_CREATED = "s3:ObjectRemoved:DeleteMarkerCreated"
    OBJECT_REMOVED_DELETE_ALL_VERSIONS = "s3:ObjectRemoved:DeleteAllVersions"
    OBJECT_REMOVED_NO_OP = "s3:ObjectRemoved:NoOP"
    BUCKET_CREATED = "s3:BucketCreated:*"
    BUCKET_REMOVED = "s3:BucketRemoved:*"
    REPLICATION_FAILED = "s3:Replication:OperationFailedReplication"
    REPLICATION_COMPLETED = "s3:Replication:OperationCompletedReplication"
    REPLICATION_MISSED_THRESHOLD = "s3:Replication:OperationMissedThreshold"
    REPLICATION_REPLICATED_AFTER_THRESHOLD = "s3:Replication:OperationReplicatedAfterThreshold"
    REPLICATION_NOT_TRACKED = "s3:Replication:OperationNotTracked"
    OBJECT_RESTORE_POST = "s3:ObjectRestore:Post"
    OBJECT_RESTORE_COMPLETED = "s3:ObjectRestore:Completed"
    OBJECT_TRANSITION_FAILED = "s3:ObjectTransition:Failed"
    OBJECT_TRANSITION_COMPLETE = "s3:ObjectTransition:Complete"
    SCANNER_MANY_VERSIONS = "s3:Scanner:ManyVersions"
    SCANNER_LARGE_VERSIONS = "s3:Scanner:LargeVersions"
    SCANNER_BIG_PREFIX = "s3:Scanner:BigPrefix"
    LIFECYCLE_DELETE_MARKER_EXPIRATION = "s3:LifecycleDelMarkerExpiration:Delete"
    OBJECT_ACL_PUT = "s3:ObjectAcl:Put"
    LIFECYCLE_EXPIRATION_DELETE = "s3:LifecycleExpiration:Delete"
    LIFECYCLE_EXPIRATION_DELETE_MARKER_CREATED = "s3:LifecycleExpiration:DeleteMarkerCreated"
    LIFECYCLE_TRANSITION = "s3:LifecycleTransition"
    INTELLIGENT_TIERING = "s3:IntelligentTiering"

    # Wildcards.
    OBJECT_ACCESSED_ALL = "s3:ObjectAccessed:*"
    OBJECT_CREATED_ALL = "s3:ObjectCreated:*"
    OBJECT_REMOVED_ALL = "s3:ObjectRemoved:*"
    REPLICATION_ALL = "s3:Replication:*"
    OBJECT_RESTORE_ALL = "s3:ObjectRestore:*"
    OBJECT_TAGGING_ALL = "s3:ObjectTagging:*"
    LIFECYCLE_EXPIRATION_ALL = "s3:LifecycleExpiration:*"
    OBJECT_TRANSITION_ALL = "s3:ObjectTransition:*"
    SCANNER_ALL = "s3:Scanner:*"
    EVERYTHING = ""
    """All single events. Configurations cannot name it."""

    # Reserved by MinIO for its counters: never sent.
    ABORT_MULTIPART_UPLOAD = "s3:ObjectRemoved:AbortMultipartUpload"
    CREATE_MULTIPART_UPLOAD = "s3:ObjectCreated:CreateMultipartUpload"
    DELETE_OBJECTS = "s3:ObjectRemoved:DeleteObjects"

    # Only for audit targets: not in buckets, and not part of a wildcard.
    KMS_KEY_CREATED = "kms:Key:Created"
    KMS_KEY_ROTATED = "kms:Key:Rotated"
    KMS_KEY_ENABLED = "kms:Key:Enabled"
    KMS_KEY_DISABLED = "kms:Key:Disabled"
    KMS_KEY_DELETION_SCHEDULED = "kms:Key:DeletionScheduled"
    KMS_KEY_DELETION_CANCELLED = "kms:Key:DeletionCancelled"
    KMS_KEY_DELETED = "kms:Key:Deleted"
    KMS_KEY_ACCESSED = "kms:Key:Accessed"
    KMS_SERVICE_CONFIGURED = "kms:Service:Configured"
    KMS_SERVICE_STARTED = "kms:Service:Started"
    KMS_SERVICE_STOPPED = "kms:Service:Stopped"

    @property
    def ordinal(self) -> int:
        """The position among all names, from 1."""
        return _ORDINALS[self]

    @property
    def mask(self) -> int:
        """The bit of a single event; the bits of all members of a wildcard."""
        return _MASKS[self]

    @property
    def singles(self) -> tuple[EventName, ...]:
        """The members of a wildcard; a single event itself."""
        return tuple(name for name in EventName if not _MEMBERS.get(name) and name.mask & self.mask)

    @property
    def is_wildcard(self) -> bool:
        """Whether the name means several events."""
        return self in _MEMBERS

    @property
    def version(self) -> str:
        """The schema version of its records."""
        if self in _VERSION_2_3:
            return "2.3"
        return "2.2" if self.mask & EventName.REPLICATION_ALL.mask else "2.1"

    @property
    def kind(self) -> str:
        """The event's kind in the outbox."""
        return self.value.removeprefix(PREFIX).removesuffix(":*")

    @property
    def omits_object_fields(self) -> bool:
        """Whether its records omit size, ETag, content type and user metadata."""
        return self in _WITHOUT_OBJECT_FIELDS

    @property
    def removes_resource(self) -> bool:
        """Whether the object or bucket no longer exists afterwards, unless the event's payload says `remains`."""
        return self in _REMOVING


_N = EventName
SINGLES: Final = tuple(_N)[:37]
"""The single events of buckets."""

_FIRST_INTERNAL: Final = 48
_FIRST_AUDIT: Final = 51

_MEMBERS: Final[Mapping[EventName, tuple[EventName, ...]]] = {
    _N.OBJECT_ACCESSED_ALL: (
        _N.OBJECT_ACCESSED_GET,
        _N.OBJECT_ACCESSED_HEAD,
        _N.OBJECT_ACCESSED_GET_RETENTION,
        _N.OBJECT_ACCESSED_GET_LEGAL_HOLD,
        _N.OBJECT_ACCESSED_ATTRIBUTES,
    ),
    # As in S3: retention, legal holds and the removal of all versions are not members of a wildcard.
    _N.OBJECT_CREATED_ALL: (
        _N.OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD,
        _N.OBJECT_CREATED_COPY,
        _N.OBJECT_CREATED_POST,
        _N.OBJECT_CREATED_PUT,
    ),
    _N.OBJECT_REMOVED_ALL: (
        _N.OBJECT_REMOVED_DELETE,
        _N.OBJECT_REMOVED_DELETE_MARKER_CREATED,
        _N.OBJECT_REMOVED_NO_OP,
    ),
    _N.REPLICATION_ALL: (
        _N.REPLICATION_FAILED,
        _N.REPLICATION_COMPLETED,
        _N.REPLICATION_MISSED_THRESHOLD,
        _N.REPLICATION_REPLICATED_AFTER_THRESHOLD,
        _N.REPLICATION_NOT_TRACKED,
    ),
    _N.OBJECT_RESTORE_ALL: (_N.OBJECT_RESTORE_POST, _N.OBJECT_RESTORE_COMPLETED),
    _N.OBJECT_TAGGING_ALL: (_N.OBJECT_TAGGING_PUT, _N.OBJECT_TAGGING_DELETE),
    _N.LIFECYCLE_EXPIRATION_ALL: (
        _N.LIFECYCLE_EXPIRATION_DELETE,
        _N.LIFECYCLE_EXPIRATION_DELETE_MARKER_CREATED,
    ),
    _N.OBJECT_TRANSITION_ALL: (
        _N.OBJECT_TRANSITION_FAILED,
        _N.OBJECT_TRANSITION_COMPLETE,
        _N.LIFECYCLE_TRANSITION,
    ),
    _N.SCANNER_ALL: (_N.SCANNER_MANY_VERSIONS, _N.SCANNER_LARGE_VERSIONS, _N.SCANNER_BIG_PREFIX),
    _N.EVERYTHING: SINGLES,
}

_ORDINALS: Final[Mapping[EventName, int]] = {name: place for place, name in enumerate(EventName, 1)}


def _bits(names: Iterable[EventName]) -> int:
    return sum(1 << (_ORDINALS[name] - 1) for name in names)


_MASKS: Final[Mapping[EventName, int]] = {name: _bits(_MEMBERS.get(name, (name,))) for name in EventName}

_VERSION_2_3: Final = frozenset(
    {
        _N.OBJECT_RESTORE_COMPLETED,
        _N.OBJECT_TAGGING_PUT,
        _N.OBJECT_TAGGING_DELETE,
        _N.OBJECT_ACL_PUT,
        _N.LIFECYCLE_EXPIRATION_DELETE,
        _N.LIFECYCLE_EXPIRATION_DELETE_MARKER_CREATED,
        _N.LIFECYCLE_TRANSITION,
        _N.INTELLIGENT_TIERING,
    }
)

_WITHOUT_OBJECT_FIELDS: Final = frozenset(
    {
        _N.OBJECT_REMOVED_DELETE,
        _N.OBJECT_REMOVED_DELETE_MARKER_CREATED,
        _N.OBJECT_REMOVED_DELETE_ALL_VERSIONS,
        _N.OBJECT_REMOVED_NO_OP,
        _N.ABORT_MULTIPART_UPLOAD,
        _N.DELETE_OBJECTS,
    }
)

_REMOVING: Final = frozenset(
    {
        _N.OBJECT_REMOVED_DELETE,
        _N.OBJECT_REMOVED_DELETE_MARKER_CREATED,
        _N.OBJECT_REMOVED_DELETE_ALL_VERSIONS,
        _N.OBJECT_REMOVED_NO_OP,
        _N.LIFECYCLE_EXPIRATION_DELETE,
        _N.LIFECYCLE_EXPIRATION_DELETE_MARKER_CREATED,
        _N.LIFECYCLE_DELETE_MARKER_EXPIRATION,
        _N.BUCKET_REMOVED,
    }
)

ON_DEMAND: Final = _N.OBJECT_ACCESSED_ALL.mask | _N.OBJECT_REMOVED_NO_OP.mask | _N.OBJECT_ACL_PUT.mask
"""Events of operations without a change. They are emitted only while a rule or a listener subscribes to them."""

_ALIASES: Final[Mapping[str, EventName]] = {
    "s3:ObjectCreated:PutTagging": _N.OBJECT_TAGGING_PUT,
    "s3:ObjectCreated:DeleteTagging": _N.OBJECT_TAGGING_DELETE,
}
"""Deprecated names: accepted in input, never written."""

_BY_TEXT: Final[Mapping[str, EventName]] = {
    **_ALIASES,
    **{
        name.value: name
        for name in EventName
        if name is not _N.EVERYTHING and not _FIRST_INTERNAL <= _ORDINALS[name] < _FIRST_AUDIT
    },
}
_BY_KIND: Final[Mapping[str, EventName]] = {name.kind: name for name in SINGLES}


def parse_name(text: str) -> EventName:
    """Parse a name in a bucket rule or listener, including wildcards. Raises InvalidInput."""
    found = _BY_TEXT.get(text)
    if found is None or found.ordinal >= _FIRST_AUDIT:
        raise InvalidInput("A specified event is not supported for notifications.", argument="Event", value=text[:200])
    return found


def name_of_kind(kind: str) -> EventName | None:
    """The name of an outbox kind; None for kinds that are not S3 events."""
    return _BY_KIND.get(kind)


def mask_of(names: Iterable[EventName]) -> int:
    """The union of the masks."""
    mask = 0
    for name in names:
        mask |= name.mask
    return mask
