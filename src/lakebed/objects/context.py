"""The stores, clock, encryption keys and authorizer that the services of this package share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from lakebed.core.access import AccessRequest, AccessTarget, Authorizer, ResourceRules, Securable
from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, NoSuchBucket
from lakebed.core.ids import BlobId
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.storage.seam import ObjectStorage

from .blobs.contents import Contents
from .blobs.ingest import Ingested, Ingester
from .buckets.bucket import EXTERNAL, Bucket, bucket_from
from .condition_context import ConditionKeys
from .model import Caller, StoredObject
from .publishing import NewGarbage
from .rows import BUCKET_BY_NAME

T = TypeVar("T")


class GarbageCollector(Protocol):
    """Deletes unreferenced blobs in the background."""

    def wake(self, blobs: Iterable[BlobId]) -> None:
        """Schedule the deletion of blobs that just became garbage."""
        ...


KeyOwner: TypeAlias = str
"""The table or location claim that a key belongs to, for write access; empty for none."""


class TableBucketAuthorizer(Protocol):
    """Further authorization for keys of table buckets. Not called for other buckets."""

    async def authorize(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """Authorize an action that policies already allow; the owner of the key.

        Raises AccessDenied. Called before anything is read or written.
        """
        ...

    async def check_write(self, tx: Transaction, bucket: Bucket, key: str, key_owner: KeyOwner | None = None) -> None:
        """Check inside the writing transaction that the key's object may be replaced or removed.

        With the `key_owner` from `authorize`, a key without owner is allowed too. Raises AccessDenied; WriteConflict
        if the key has another owner by now.
        """
        ...

    async def check_bucket_removal(self, tx: Transaction, bucket: Bucket) -> None:
        """Check inside the deleting transaction that a table bucket without objects may be deleted.

        Raises BucketHasTables.
        """
        ...


class DenyTableBuckets:
    """The authorizer of a server without table support: denies everything in table buckets."""

    async def authorize(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """Always deny."""
        raise AccessDenied(f"the bucket holds tables, and this server does not serve them. bucket={bucket.name}")

    async def check_write(self, tx: Transaction, bucket: Bucket, key: str, key_owner: KeyOwner | None = None) -> None:
        """Always deny."""
        raise AccessDenied(f"the bucket holds tables, and this server does not serve them. bucket={bucket.name}")

    async def check_bucket_removal(self, tx: Transaction, bucket: Bucket) -> None:
        """Deny for table buckets."""
        if bucket.holds_tables:
            raise AccessDenied(f"the bucket holds tables, and this server does not serve them. bucket={bucket.name}")


DENY_TABLE_BUCKETS: Final = DenyTableBuckets()


class NameReservations(Protocol):
    """Names that the server reserves, beyond those that S3 forbids."""

    def check_bucket(self, name: str) -> None:
        """Raise InvalidName, with the reason, if the bucket name is reserved."""
        ...

    def check_key(self, bucket: str, key: str) -> None:
        """Raise InvalidName, with the reason, if the key is reserved."""
        ...


class NoReservedNames:
    """Reserves no names."""

    def check_bucket(self, name: str) -> None:
        """Accept every name."""

    def check_key(self, bucket: str, key: str) -> None:
        """Accept every key."""


NO_RESERVED_NAMES: Final = NoReservedNames()


class ReadEventSink(Protocol):
    """Receives events that are not part of a change: reads, and deletions of absent objects."""

    def wants(self, bucket: Bucket, kind: str) -> bool:
        """Whether a rule of the bucket subscribes to events of this kind."""
        ...

    def emit(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Publish an event about an object in the background, if a rule subscribes to it."""
        ...


class NoReadEvents:
    """Ignores all events."""

    def wants(self, bucket: Bucket, kind: str) -> bool:
        """No."""
        return False

    def emit(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Do nothing."""


NO_READ_EVENTS: Final = NoReadEvents()


@dataclass(frozen=True, slots=True)
class ObjectContext:
    """The stores and the authorizer. Created once, in `server`."""

    meta: MetaStore
    outbox: Outbox
    storage: ObjectStorage
    ingester: Ingester
    contents: Contents
    authorizer: Authorizer
    clock: Clock
    garbage_collector: GarbageCollector
    region: str = "us-east-1"
    default_encryption: bool = False
    garbage_grace_ms: int = 0
    """How long a dropped blob stays for readers that have not opened it yet; not needed for local files."""
    table_buckets: TableBucketAuthorizer = DENY_TABLE_BUCKETS
    """Called after the authorizer, for keys of table buckets."""
    read_events: ReadEventSink = NO_READ_EVENTS
    reserved_names: NameReservations = NO_RESERVED_NAMES

    async def authorize(
        self,
        caller: Caller,
        bucket: Bucket,
        action: str,
        key: str | None = None,
        extra: ConditionKeys | None = None,
    ) -> None:
        """Authorize `caller` for `action` on the bucket, or on one of its keys. Raises AccessDenied."""
        resource = f"arn:aws:s3:::{bucket.name}" if key is None else f"arn:aws:s3:::{bucket.name}/{key}"
        await self.authorize_resource(caller, bucket.access_rules, action, resource, extra)

    async def authorize_key(
        self, caller: Caller, bucket: Bucket, action: str, key: str, extra: ConditionKeys | None = None
    ) -> KeyOwner:
        """Authorize `caller` for `action` on a key, in table buckets by the table too. Raises AccessDenied."""
        await self.authorize(caller, bucket, action, key, extra)
        return await self.table_buckets.authorize(caller, bucket, action, key) if bucket.holds_tables else ""

    def precheck(self, caller: Caller, rules: ResourceRules, actions: Sequence[str], resource: str = "") -> None:
        """Reject early a caller without permission for any of these actions. Raises AccessDenied.

        For requests whose body must be read before `authorize` can decide. An empty resource is not known yet.
        """
        principal = caller.principal
        if any(self.authorizer.could_allow(AccessRequest(principal, action, resource), rules) for action in actions):
            return
        name = "anonymous" if principal.is_anonymous else principal.caller_arn
        raise AccessDenied(
            f"no policy allows it. principal={name} action={' or '.join(actions)} resource={resource or 'any'}"
        )

    async def authorize_resource(
        self,
        caller: Caller,
        rules: ResourceRules,
        action: str,
        resource: str,
        extra: ConditionKeys | None = None,
        *,
        securable: Securable | None = None,
        privileges: tuple[int, ...] = (),
        target: AccessTarget | None = None,
    ) -> None:
        """Authorize `caller` for `action` on a resource with these rules. Raises AccessDenied, Unavailable.

        `securable` and `privileges` describe the same request for grants, if it has such terms; `target` describes it
        by names. Must not run inside a transaction, because an external decision point may be called.
        """
        principal = caller.principal
        context: ConditionKeys = {}
        if rules.policy is not None or principal.policies or principal.session is not None or self.needs_full_context:
            # Policies will be evaluated, so their conditions need the full context.
            context = self._condition_keys(caller, rules.owner) | (extra or {})
        await self.authorizer.authorize(
            AccessRequest(principal, action, resource, context, securable, privileges, target, caller.request_id), rules
        )

    @property
    def needs_full_context(self) -> bool:
        """Whether the authorizer requires all condition keys of a request."""
        return self.authorizer.needs_full_context

    async def filter_visible(
        self,
        caller: Caller,
        rules: ResourceRules,
        action: str,
        resource: str,
        extra: ConditionKeys,
        targets: Sequence[AccessTarget],
    ) -> Sequence[AccessTarget]:
        """The `targets` that a listing shows to a caller with permission to list. Raises Unavailable."""
        context = self._condition_keys(caller, rules.owner) | extra
        request = AccessRequest(caller.principal, action, resource, context, request_id=caller.request_id)
        return await self.authorizer.visible(request, rules, targets)

    async def authorize_account(
        self, caller: Caller, action: str, resource: str, extra: ConditionKeys | None = None
    ) -> None:
        """Authorize an action on a resource without owner, under the caller's own account. Raises AccessDenied."""
        await self.authorize_resource(caller, ResourceRules(owner=caller.principal.account), action, resource, extra)

    def _condition_keys(self, caller: Caller, owner: str) -> ConditionKeys:
        """The condition keys of every request."""
        return {
            "aws:SourceIp": caller.source_ip,
            "aws:SecureTransport": "true" if caller.secure else "false",
            "aws:RequestedRegion": self.region,
            "aws:ResourceAccount": owner,
            "s3:ResourceAccount": owner,
            **caller.conditions(),
        }

    async def bucket(self, reader: Reader, name: str) -> Bucket:
        """The bucket with this name. Raises NoSuchBucket."""
        row = None if name.startswith(EXTERNAL) else await reader.row(BUCKET_BY_NAME, name)
        if row is None:
            raise NoSuchBucket(f"no such bucket. bucket={name}")
        return bucket_from(row)

    async def transact(self, work: Callable[[Transaction, NewGarbage], Awaitable[T]]) -> T:
        """Run a transaction that may drop blobs; after the commit, the garbage collector deletes them."""
        garbage = NewGarbage(self.clock.now_ms() + self.garbage_grace_ms)

        async def collecting(tx: Transaction) -> T:
            garbage.blobs.clear()  # of an earlier attempt
            return await work(tx, garbage)

        result = await self.meta.transact(collecting)
        if garbage.blobs:
            self.garbage_collector.wake(garbage.blobs)
        return result

    async def publish(self, ingested: Ingested, work: Callable[[Transaction, NewGarbage], Awaitable[T]]) -> T:
        """Like `transact`, for a transaction that references ingested bytes: if it fails, they are removed."""
        try:
            return await self.transact(work)
        except Exception as error:
            # The outcome of the commit is unknown: the blob stays, and the orphan sweep deletes it if unreferenced.
            if not getattr(error, "undecided", False):
                await self.ingester.discard(ingested)
            raise
