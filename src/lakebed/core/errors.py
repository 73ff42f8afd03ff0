"""The error tree of the whole product.

Each leaf says what happened and what the caller does next; no leaf knows HTTP. Every wire protocol has one table from
these classes to its own form, looked up along the class ancestry.

    LakebedError
    ├── InvalidInput               the request is wrong: change it, a retry cannot help
    │   ├── InvalidSetting         a setting is unknown, missing or malformed; names its path
    │   ├── InvalidName            a bucket, key or other name breaks its rules
    │   ├── InvalidRange           a byte range that the object cannot satisfy
    │   ├── InvalidPart            a part that was not uploaded, or is not listed
    │   ├── InvalidPartOrder       a multipart list is not ascending
    │   ├── PartTooSmall           a part other than the last is under 5 MiB
    │   ├── TooLarge               a body, key, header or document exceeds its limit
    │   ├── InvalidTag             a tag set breaks its rules
    │   ├── InvalidPolicy          a policy document does not parse or is invalid
    │   ├── InvalidRetention       an invalid retention period or date
    │   ├── InvalidEncryption      encryption parameters are wrong or do not fit the object
    │   ├── NotAttachable          policies of that type cannot be attached to such a target
    │   ├── LocationConflict       a table's location overlaps another's
    │   ├── InvalidViewVersion     a view version breaks the rules of views
    │   ├── ConflictingProperties  a property is both set and removed
    │   ├── InvalidScope           an invalid token scope, or one wider than permitted
    │   └── SelectError            an S3 Select query, or the object it reads, is invalid; carries S3's code
    ├── NotFound                   the named resource does not exist
    │   ├── NoSuchBucket
    │   ├── NoSuchKey              (carries whether a delete marker hides it)
    │   ├── NoSuchVersion
    │   ├── NoSuchUpload
    │   ├── NoSuchConfiguration    a bucket or object setting that was never set
    │   ├── NoSuchPrincipal
    │   │   ├── NoSuchAccessKey
    │   │   └── NoSuchUserPolicy   the user has no policy of that name, or none can be attached
    │   ├── NoSuchCatalog          no catalog of that name, or a bucket without one
    │   ├── NoSuchNamespace
    │   ├── NoSuchTable
    │   ├── NoSuchView
    │   ├── NoSuchPolicy           no policy of that name in the namespace
    │   ├── NoSuchPolicyType
    │   ├── NoSuchTarget           the target of a policy attachment does not exist
    │   ├── NoSuchAttachment       the policy is not attached there
    │   ├── NoSuchPlanId           an unknown or expired scan plan, or one of another table
    │   └── NoSuchPlanTask         a task of such a plan
    ├── AlreadyExists              another request was first
    │   ├── BucketAlreadyExists    another account owns it
    │   └── BucketAlreadyOwned     the caller owns it
    ├── PreconditionFailed         a condition was evaluated and is false: read again, decide again
    │   ├── PolicyVersionMismatch  the policy has changed since it was read
    │   └── CommitConflict         the commit assumed another state; nothing was committed, rebuild
    │       └── PointerMoved       another commit was first; check whether this one still applies
    ├── NotModified                a conditional read found nothing new
    ├── StateConflict              the resource's state forbids the change: change the state first
    │   ├── BucketNotEmpty
    │   │   └── BucketHasTables    it has no objects, but tables belong to it or point into it; drop these first
    │   ├── InvalidBucketState
    │   ├── NamespaceNotEmpty
    │   ├── CatalogNotEmpty
    │   ├── TableProtected         deletion protection is on; switch it off first
    │   ├── PolicyInUse            a policy is attached, or a type has policies; detach or drop those first
    │   ├── AttachmentConflict     the target has a policy of that type; detach it first
    │   └── IsDeleteMarker         the named version is a delete marker
    ├── DuplicateRequest           a request with the same idempotency key was first; return its response
    ├── WriteConflict              undecided, a concurrent change interfered: retry, evaluating again
    ├── Fenced                     a newer owner exists: stop, never retry
    ├── Unauthenticated            the caller's identity cannot be established
    │   ├── CredentialsExpired     refresh the credentials, then retry once
    │   └── CredentialsRevoked     revoked before their expiry; a refresh cannot help
    ├── AccessDenied               the caller lacks a permission
    │   ├── VersionProtected       retention or a legal hold protects the version
    │   └── Vetoed                 a listener rejected the operation; the message has its reason
    ├── IntegrityMismatch          bytes do not match their digest: send them again from the source
    ├── Incomplete                 the sender stopped before the announced length
    ├── Undeliverable              the receiver will never accept the message: move it to the dead-letter queue
    ├── NotSupported               a feature that this build lacks; on the printed list
    │   └── MissingExtra           an optional dependency is not installed; the message says how to install it
    ├── Throttled                  too many requests: retry after a longer pause
    ├── Unavailable                the other side failed or cannot be reached: retry if idempotent
    │   ├── StorageFull            no space left: retry after freeing space
    │   ├── ExternalCatalogError   an external catalog refuses this server, or breaks the protocol; needs an operator
    │   ├── PipelineUnavailable    Spark cannot start here; the message says what to do
    │   └── StoreMismatch          the object store does not belong to the metadata store; needs an operator
    └── Corrupted                  stored bytes are not what was written; needs an operator
        └── BlobMissing            the metadata references bytes that the object store does not have
"""

from __future__ import annotations

from typing import ClassVar


class LakebedError(Exception):
    """Base of every error that Lakebed raises on purpose."""

    retryable: ClassVar[bool] = False
    """Whether the same call can succeed later with nothing else changed."""


class InvalidInput(LakebedError):
    """The request is wrong: change it; a retry cannot help."""

    def __init__(self, message: str = "", *, argument: str | None = None, value: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument
        self.value = value


class InvalidSetting(InvalidInput):
    """A setting is unknown, missing or malformed. The message starts with its path."""


class InvalidName(InvalidInput):
    """A name breaks the rules of its kind."""


class InvalidRange(InvalidInput):
    """A byte range that the object cannot satisfy."""

    def __init__(self, message: str = "", *, size: int | None = None, requested: str | None = None) -> None:
        super().__init__(message)
        self.size = size
        self.requested = requested


class InvalidPart(InvalidInput):
    """A multipart list names a part that was not uploaded, or with another ETag; or a read names one after the last."""

    def __init__(self, message: str = "", *, part: int | None = None, count: int | None = None) -> None:
        super().__init__(message)
        self.part = part
        self.count = count
        """The number of parts of the object, for reads by part number."""


class InvalidPartOrder(InvalidInput):
    """A multipart list is not in ascending order of part numbers."""


class PartTooSmall(InvalidInput):
    """A part other than the last is smaller than 5 MiB."""


class TooLarge(InvalidInput):
    """A body, key, header or document exceeds its limit."""


class InvalidTag(InvalidInput):
    """A tag set breaks its rules: count, length, repeated keys."""


class InvalidPolicy(InvalidInput):
    """A policy document does not parse, or is invalid."""


class InvalidRetention(InvalidInput):
    """An invalid retention period or date."""


class InvalidEncryption(InvalidInput):
    """Encryption parameters are wrong, missing, or do not fit the object."""


class NotAttachable(InvalidInput):
    """Policies of that type cannot be attached to such a target: choose another one."""


class LocationConflict(InvalidInput):
    """The location of a table or catalog overlaps that of another: choose another one."""


class InvalidViewVersion(InvalidInput):
    """A view version breaks the rules of views: it has two queries in a dialect, or drops a dialect."""


class ConflictingProperties(InvalidInput):
    """A property is both set and removed."""


class InvalidScope(InvalidInput):
    """The requested token scope names no roles, or exceeds the scope of the exchanged token."""


class SelectError(InvalidInput):
    """A query cannot run, or the object cannot be read: change one or the other."""

    def __init__(self, message: str = "", *, code: str = "InvalidRequestParameter") -> None:
        super().__init__(message or f"select failed. code={code}")
        self.code = code
        """A code of S3 Select (`select.failures.SelectCode`)."""


class NotFound(LakebedError):
    """The named resource does not exist."""


class NoSuchBucket(NotFound):
    """No bucket of that name."""


class NoSuchKey(NotFound):
    """No current object under that key."""

    def __init__(self, message: str = "", *, delete_marker: str | None = None) -> None:
        super().__init__(message)
        self.delete_marker = delete_marker
        """Version id of the delete marker that hides the object, if one does."""


class NoSuchVersion(NotFound):
    """No such version of that key."""


class NoSuchUpload(NotFound):
    """No multipart upload of that id: never initiated, aborted or completed."""


class NoSuchConfiguration(NotFound):
    """A setting of a bucket or object that was never set. `kind` names it."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message or f"no such configuration. kind={kind}")
        self.kind = kind


class NoSuchPrincipal(NotFound):
    """No principal, role or access key of that name."""


class NoSuchAccessKey(NoSuchPrincipal):
    """No access key of that id."""


class NoSuchUserPolicy(NoSuchPrincipal):
    """The user has no policy of that name, or no policy of that name can be attached."""


class NoSuchCatalog(NotFound):
    """No catalog of that name, and no table bucket of that name."""


class NoSuchNamespace(NotFound):
    """No namespace of that name."""


class NoSuchTable(NotFound):
    """No table of that name."""


class NoSuchView(NotFound):
    """No view of that name."""


class NoSuchPolicy(NotFound):
    """No policy of that name in the namespace."""


class NoSuchPolicyType(NotFound):
    """No policy type of that name, neither built in nor defined."""


class NoSuchTarget(NotFound):
    """The target of a policy attachment does not exist."""


class NoSuchAttachment(NotFound):
    """The policy is not attached to that target."""


class NoSuchPlanId(NotFound):
    """No scan plan of that id for this table: plan the scan again."""


class NoSuchPlanTask(NotFound):
    """No such task of a scan plan for this table: plan the scan again."""


class AlreadyExists(LakebedError):
    """Another request was first."""


class BucketAlreadyExists(AlreadyExists):
    """The bucket exists and another account owns it."""


class BucketAlreadyOwned(AlreadyExists):
    """The bucket exists and the caller owns it."""


class PreconditionFailed(LakebedError):
    """A condition was evaluated and is false: read again, decide again."""

    def __init__(self, message: str = "", *, condition: str | None = None) -> None:
        super().__init__(message)
        self.condition = condition


class PolicyVersionMismatch(PreconditionFailed):
    """The policy has another version than the update expects: reload it, then update."""


class CommitConflict(PreconditionFailed):
    """The table or view is not as the commit assumed. Nothing was committed: rebuild on the new state."""

    def __init__(
        self, message: str = "", *, condition: str | None = None, expected: object = None, found: object = None
    ) -> None:
        super().__init__(message, condition=condition)
        self.expected = expected
        self.found = found
        """The assumed and the actual value; `condition` is the type of the requirement, or the field."""


class PointerMoved(CommitConflict):
    """Another commit moved the metadata pointer first: reload, and check whether this commit still applies."""


class NotModified(LakebedError):
    """A conditional read found nothing new."""

    def __init__(self, message: str = "", *, etag: str | None = None, modified_ms: int | None = None) -> None:
        super().__init__(message)
        self.etag = etag
        self.modified_ms = modified_ms


class StateConflict(LakebedError):
    """The resource's state forbids the change: change the state first."""


class BucketNotEmpty(StateConflict):
    """The bucket still holds objects, versions or uploads."""


class BucketHasTables(BucketNotEmpty):
    """Tables or views belong to the bucket, or have their metadata in it: drop these first."""


class InvalidBucketState(StateConflict):
    """The bucket's other settings forbid this one."""


class NamespaceNotEmpty(StateConflict):
    """The namespace still holds tables, views or namespaces."""


class CatalogNotEmpty(StateConflict):
    """The catalog still holds namespaces, or files in quarantine: remove these first."""


class TableProtected(StateConflict):
    """The table or view has deletion protection: switch it off first."""


class PolicyInUse(StateConflict):
    """A policy is attached somewhere, or a type has policies: detach or drop those first."""


class AttachmentConflict(StateConflict):
    """The target already has a policy of a type that allows only one: detach that first."""


class IsDeleteMarker(StateConflict):
    """The version named is a delete marker, which has no content."""


class DuplicateRequest(LakebedError):
    """A request with the same idempotency key was first: return its response."""


class WriteConflict(LakebedError):
    """Undecided: a concurrent change interfered. Retry, evaluating conditions again."""

    retryable = True


class Fenced(LakebedError):
    """A newer owner exists: stop, never retry."""


class Unauthenticated(LakebedError):
    """The caller's identity cannot be established."""


class CredentialsExpired(Unauthenticated):
    """The credentials expired: refresh them, then retry once."""


class CredentialsRevoked(Unauthenticated):
    """An administrator revoked the credentials: get new ones, a refresh cannot help."""


class AccessDenied(LakebedError):
    """The caller is authenticated and lacks a permission."""


class VersionProtected(AccessDenied):
    """Retention or a legal hold protects the version: wait for its end, or have an authorized user lift it."""


class Vetoed(AccessDenied):
    """A listener rejected the operation before it began; nothing changed. The message has its reason."""


class IntegrityMismatch(LakebedError):
    """Bytes do not match their digest: send them again from the source. `digest` names the algorithm."""

    def __init__(
        self,
        message: str = "",
        *,
        digest: str = "",
        claimed: str | None = None,
        calculated: str | None = None,
        part: int | None = None,
    ) -> None:
        super().__init__(message)
        self.digest = digest
        self.part = part
        """The part number, for a part of a multipart list."""
        self.claimed = claimed
        self.calculated = calculated
        """In hexadecimal, if known."""


class Incomplete(LakebedError):
    """The sender stopped before the announced length."""


class Undeliverable(LakebedError):
    """The receiver will never accept the message: do not retry, move it to the dead-letter queue."""


class NotSupported(LakebedError):
    """A feature that this build lacks. It is on the printed list."""


class MissingExtra(NotSupported):
    """An optional dependency is not installed: install the extra that the message names."""


class Throttled(LakebedError):
    """Too many requests: retry after a longer pause."""

    retryable = True

    def __init__(self, message: str = "", *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        """The recommended pause, if known."""


class Unavailable(LakebedError):
    """The other side failed or cannot be reached: retry if the call is idempotent."""

    retryable = True

    def __init__(self, message: str = "", *, undecided: bool = False) -> None:
        super().__init__(message)
        self.undecided = undecided
        """Whether the change may have been applied although its response was lost."""


class StorageFull(Unavailable):
    """No space left: retry after freeing space."""


class ExternalCatalogError(Unavailable):
    """An external catalog failed, refuses this server's credentials or breaks the protocol: needs an operator."""

    retryable = False


class PipelineUnavailable(Unavailable):
    """Spark cannot start on this machine: do what the message says. Another machine may be able to."""

    retryable = False


class StoreMismatch(Unavailable):
    """Object store and metadata store do not belong together: deletion stops until an operator corrects that."""

    retryable = False


class Corrupted(LakebedError):
    """Stored bytes are not what was written: needs an operator."""


class BlobMissing(Corrupted):
    """The metadata references bytes that the object store does not have: check that it is the right store."""
