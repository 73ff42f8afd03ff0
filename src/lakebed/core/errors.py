"""One tree of errors for the whole product.

Each leaf says what happened and what the caller does next; no leaf knows of HTTP. Every edge has one
table from these classes to its wire form, looked up along the class ancestry.

    LakebedError
    ├── InvalidInput               the request is wrong; change it, a retry cannot help
    │   ├── InvalidSetting         a setting is unknown, missing or malformed; names its path
    │   ├── InvalidName            a bucket, key or other name breaks its rules
    │   ├── InvalidRange           a byte range that the object cannot satisfy
    │   ├── InvalidPart            a part that was not uploaded, listed or asked for
    │   ├── InvalidPartOrder       a multipart list is not ascending
    │   ├── PartTooSmall           a part that is not the last is under 5 MiB
    │   ├── TooLarge               a body, key, header or document is over its limit
    │   ├── InvalidTag             a tag set breaks its rules
    │   ├── InvalidPolicy          a policy document does not parse or means nothing here
    │   ├── InvalidRetention       a retention period or date that cannot be
    │   ├── InvalidEncryption      encryption parameters that are wrong or do not fit the object
    │   ├── NotAttachable          a policy of that type does not go with such a target
    │   ├── LocationConflict       a table's location lies in or around another's
    │   ├── InvalidViewVersion     a version of a view breaks the rules of views
    │   ├── ConflictingProperties  a property is both set and removed
    │   ├── InvalidScope           a token is asked for with a scope that cannot be, or that is wider than may be
    │   └── SelectError          a query over an object, or what it finds there, is wrong; carries S3's code for it
    ├── NotFound                   the thing named is absent
    │   ├── NoSuchBucket
    │   ├── NoSuchKey              (carries whether a delete marker hides it)
    │   ├── NoSuchVersion
    │   ├── NoSuchUpload
    │   ├── NoSuchConfiguration    a bucket or object setting that was never set
    │   ├── NoSuchPrincipal
    │   │   ├── NoSuchAccessKey
    │   │   └── NoSuchUserPolicy   no policy of that name that a user has, or that could be attached
    │   ├── NoSuchCatalog        no bucket of that name, or not enabled for tables
    │   ├── NoSuchNamespace
    │   ├── NoSuchTable
    │   ├── NoSuchView
    │   ├── NoSuchPolicy           no policy of that name in the namespace
    │   ├── NoSuchPolicyType
    │   ├── NoSuchTarget           what a policy is to be attached to, or detached from
    │   ├── NoSuchAttachment       the policy is not attached there
    │   ├── NoSuchPlanId           a scan plan that was never made, was of another table, or is over
    │   └── NoSuchPlanTask         a task of such a plan
    ├── AlreadyExists              somebody was first: a fact, not a fault
    │   ├── BucketAlreadyExists    it belongs to somebody else
    │   └── BucketAlreadyOwned     it is the caller's own
    ├── PreconditionFailed         a condition was evaluated and is false; read again, decide again
    │   ├── PolicyVersionMismatch  the policy has changed since it was read
    │   └── CommitConflict         a table is not as the commit assumed; nothing was committed, rebuild on the new state
    │       └── PointerMoved       another commit was first; see whether this one still holds
    ├── NotModified                a conditional read found nothing new
    ├── StateConflict              the thing's state forbids it; change the state first
    │   ├── BucketNotEmpty
    │   │   └── BucketHasTables    nothing is in it, but tables are of it or point into it; drop these first
    │   ├── InvalidBucketState
    │   ├── NamespaceNotEmpty
    │   ├── CatalogNotEmpty
    │   ├── TableProtected         deletion protection is on; switch it off first
    │   ├── PolicyInUse            a policy is attached, or a type has policies; detach or drop those first
    │   ├── AttachmentConflict     the target has a policy of that type; detach it first
    │   └── IsDeleteMarker         the version named is a delete marker
    ├── DuplicateRequest            a request with the same idempotency key was first; take its answer
    ├── WriteConflict              undecided: a concurrent change interfered; retry, evaluating again
    ├── Fenced                     a newer owner exists; stop, never retry
    ├── Unauthenticated            who is calling cannot be established
    │   ├── CredentialsExpired     refresh the credentials, then retry once
    │   └── CredentialsRevoked     somebody ended them before their time; a refresh cannot help
    ├── AccessDenied               the caller is known and may not
    │   ├── VersionProtected       retention or a legal hold keeps the version
    │   └── Vetoed                 a listener refused the operation; its reason is told
    ├── IntegrityMismatch          bytes do not match their digest; send them again from the source
    ├── Incomplete                 the sender stopped before the promised length
    ├── Undeliverable              a receiver will never take the message as it is; keep it for somebody to look at
    ├── NotSupported               a feature this build does not have; on the printed list
    │   └── MissingExtra           an optional dependency is not installed; the message says how to install it
    ├── Throttled                  too many requests; retry after a longer pause
    ├── Unavailable                the other side failed or cannot be reached; retry if idempotent
    │   ├── StorageFull            no space left; retry after space was made
    │   ├── ExternalCatalogError   an external catalog refuses this server, or breaks the protocol; needs an operator
    │   ├── PipelineUnavailable    Spark cannot be started here; the message says what to do about it
    │   └── StoreMismatch          the object store is not the one that the metadata belongs to; needs an operator
    └── Corrupted                  stored bytes are not what was written; needs an operator
        └── BlobMissing            the metadata refers to bytes that the object store does not have
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
    """A multipart list names a part that was not uploaded, or with another ETag; or a read one beyond the last."""

    def __init__(self, message: str = "", *, part: int | None = None, count: int | None = None) -> None:
        super().__init__(message)
        self.part = part
        self.count = count
        """How many parts the object has, when one of them was to be read."""


class InvalidPartOrder(InvalidInput):
    """A multipart list is not in ascending order of part numbers."""


class PartTooSmall(InvalidInput):
    """A part that is not the last is smaller than 5 MiB."""


class TooLarge(InvalidInput):
    """A body, key, header or document is over its limit."""


class InvalidTag(InvalidInput):
    """A tag set breaks its rules: count, length, repeated keys."""


class InvalidPolicy(InvalidInput):
    """A policy document does not parse, or names something that cannot be here."""


class InvalidRetention(InvalidInput):
    """A retention period or date that cannot be."""


class InvalidEncryption(InvalidInput):
    """Encryption parameters are wrong, missing, or do not fit the object."""


class NotAttachable(InvalidInput):
    """Policies of that type are not for such a target: attach it elsewhere."""


class LocationConflict(InvalidInput):
    """The location of a table or a catalog lies inside that of another, or around it: choose another place."""


class InvalidViewVersion(InvalidInput):
    """A version of a view breaks the rules of views: it has two queries in a dialect, or lacks one that it had."""


class ConflictingProperties(InvalidInput):
    """A property is both set and removed."""


class InvalidScope(InvalidInput):
    """A token is asked for with a scope that names no roles, or more than the token that it is to replace."""


class SelectError(InvalidInput):
    """A query over an object cannot be run, or what it finds there cannot be read: change one or the other."""

    def __init__(self, message: str = "", *, code: str = "InvalidRequestParameter") -> None:
        super().__init__(message or f"the select cannot be answered. code={code}")
        self.code = code
        """One of the codes of S3 Select (`select.failures.SelectCode`)."""


class NotFound(LakebedError):
    """The thing named is absent."""


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
    """No multipart upload of that id: never begun, aborted or completed."""


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
    """No catalog of that name: nobody has made one, and no bucket of that name is enabled for tables."""


class NoSuchNamespace(NotFound):
    """No namespace of that name."""


class NoSuchTable(NotFound):
    """No table of that name."""


class NoSuchView(NotFound):
    """No view of that name."""


class NoSuchPolicy(NotFound):
    """No policy of that name in the namespace."""


class NoSuchPolicyType(NotFound):
    """No type of policies of that name: neither the server's own nor one that was defined."""


class NoSuchTarget(NotFound):
    """What a policy is to be attached to, or detached from, is not there."""


class NoSuchAttachment(NotFound):
    """The policy is not attached to that target."""


class NoSuchPlanId(NotFound):
    """No scan plan of that id for this table: plan the scan again."""


class NoSuchPlanTask(NotFound):
    """No such task of a scan plan for this table: plan the scan again."""


class AlreadyExists(LakebedError):
    """Somebody was first: a fact, not a fault."""


class BucketAlreadyExists(AlreadyExists):
    """The bucket exists and belongs to somebody else."""


class BucketAlreadyOwned(AlreadyExists):
    """The bucket exists and is the caller's own."""


class PreconditionFailed(LakebedError):
    """A condition was evaluated and is false: read again, decide again."""

    def __init__(self, message: str = "", *, condition: str | None = None) -> None:
        super().__init__(message)
        self.condition = condition


class PolicyVersionMismatch(PreconditionFailed):
    """The policy is not at the version that the change was made for: load it, and change that."""


class CommitConflict(PreconditionFailed):
    """A table or view is not as the commit assumed. Nothing was committed: rebuild on the new state."""

    def __init__(
        self, message: str = "", *, condition: str | None = None, expected: object = None, found: object = None
    ) -> None:
        super().__init__(message, condition=condition)
        self.expected = expected
        self.found = found
        """What the commit assumed and what is; `condition` is the type of the requirement, or the field."""


class PointerMoved(CommitConflict):
    """Another commit moved the pointer first: read it again, and see whether this one still holds."""


class NotModified(LakebedError):
    """A conditional read found nothing new."""

    def __init__(self, message: str = "", *, etag: str | None = None, modified_ms: int | None = None) -> None:
        super().__init__(message)
        self.etag = etag
        self.modified_ms = modified_ms


class StateConflict(LakebedError):
    """The thing's state forbids the change: alter the state first."""


class BucketNotEmpty(StateConflict):
    """The bucket still holds objects, versions or uploads."""


class BucketHasTables(BucketNotEmpty):
    """The bucket may be empty, but tables or views are of it, or have their metadata in it: drop these first."""


class InvalidBucketState(StateConflict):
    """The bucket's other settings forbid this one."""


class NamespaceNotEmpty(StateConflict):
    """The namespace still holds tables, views or namespaces."""


class CatalogNotEmpty(StateConflict):
    """The catalog still holds namespaces, or files that maintenance holds for it: remove these first."""


class TableProtected(StateConflict):
    """The table or view is protected from deletion: switch the protection off first."""


class PolicyInUse(StateConflict):
    """A policy is attached somewhere, or a type has policies: detach or drop those first."""


class AttachmentConflict(StateConflict):
    """The target has another policy of a type of which it can have one: detach that first."""


class IsDeleteMarker(StateConflict):
    """The version named is a delete marker, which has no content."""


class DuplicateRequest(LakebedError):
    """A request with the same idempotency key was first: take its answer."""


class WriteConflict(LakebedError):
    """Undecided: a concurrent change interfered. Retry, evaluating conditions again."""

    retryable = True


class Fenced(LakebedError):
    """A newer owner exists: stop, never retry."""


class Unauthenticated(LakebedError):
    """Who is calling cannot be established."""


class CredentialsExpired(Unauthenticated):
    """The credentials were good once: refresh them, then retry once."""


class CredentialsRevoked(Unauthenticated):
    """The credentials were good once and were ended by whoever administers: get others, a refresh cannot help."""


class AccessDenied(LakebedError):
    """The caller is known, and may not."""


class VersionProtected(AccessDenied):
    """Retention or a legal hold keeps the version: wait for its end, or have it lifted by who may."""


class Vetoed(AccessDenied):
    """A listener refused the operation before it began; nothing was changed. The message has its reason."""


class IntegrityMismatch(LakebedError):
    """Bytes do not match their digest: send them again from the source. `digest` names which one."""

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
        """Which part of a multipart list it is about, if it is about one."""
        self.claimed = claimed
        self.calculated = calculated
        """Both in hexadecimal, where they are known."""


class Incomplete(LakebedError):
    """The sender stopped before the promised length."""


class Undeliverable(LakebedError):
    """A receiver will never take the message as it is: no other attempt, somebody has to look."""


class NotSupported(LakebedError):
    """A feature this build does not have. It is on the printed list."""


class MissingExtra(NotSupported):
    """An optional dependency is not installed: install the extra that the message names."""


class Throttled(LakebedError):
    """Too many requests: retry after a longer pause."""

    retryable = True

    def __init__(self, message: str = "", *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        """How long that pause should be, if it is known."""


class Unavailable(LakebedError):
    """The other side failed or cannot be reached: retry if the call is idempotent."""

    retryable = True

    def __init__(self, message: str = "", *, undecided: bool = False) -> None:
        super().__init__(message)
        self.undecided = undecided
        """Whether a change may have happened all the same: the answer to it was lost."""


class StorageFull(Unavailable):
    """No space is left: retry after space was made."""


class ExternalCatalogError(Unavailable):
    """Another catalog failed, refuses this server's credentials, or makes no sense: an operator has to look."""

    retryable = False


class PipelineUnavailable(Unavailable):
    """Spark cannot be started on this machine: do what the message says. Another machine may have what is missing."""

    retryable = False


class StoreMismatch(Unavailable):
    """Object store and metadata do not belong together: nothing is deleted until an operator corrects that."""

    retryable = False


class Corrupted(LakebedError):
    """Stored bytes are not what was written: an operator is needed."""


class BlobMissing(Corrupted):
    """The metadata refers to bytes that the object store does not have: see whether the store is the right one."""
