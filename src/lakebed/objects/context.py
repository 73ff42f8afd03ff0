"""What the use cases of this package share: stores, clock, keys, and the gate that every one of them passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from lakebed.core.access import AccessRequest, AccessTarget, Authorizer, ResourceRules, Securable
from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, NoSuchBucket
from lakebed.core.ids import BlobId
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.storage.seam import ObjectStorage

from .blobs.contents import Contents
from .blobs.ingest import Ingester
from .buckets.bucket import Bucket, bucket_from
from .condition_context import ConditionKeys
from .model import Caller, StoredObject
from .rows import BUCKET_BY_NAME


class GarbageCollector(Protocol):
    """Removes blobs that nothing refers to any more, soon and in the background."""

    def wake(self, blobs: Iterable[BlobId]) -> None:
        """These have just become garbage."""
        ...


KeyOwner: TypeAlias = str
"""The table or reservation that a key belongs to, as far as write access depends on it; empty for none."""


class TableBucketAuthorizer(Protocol):
    """Further rules for buckets that hold tables. About the keys of any other bucket it is not asked."""

    async def authorize(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """The holder of the key, if the caller, whom the policies allow `action` on the key, may do it there.

        Raises AccessDenied. Asked before anything is read or written.
        """
        ...

    async def check_write(self, tx: Transaction, bucket: Bucket, key: str, holder: KeyOwner | None = None) -> None:
        """Return if what the key holds may be replaced or removed, as things are inside the transaction that does it.

        With the holder that the caller was admitted for, also if the key still belongs to nothing else. Raises
        AccessDenied; WriteConflict if it does.
        """
        ...

    async def check_bucket_removal(self, tx: Transaction, bucket: Bucket) -> None:
        """Return if a bucket without objects, of whichever kind, may be removed inside the transaction that does it.

        Raises BucketHasTables.
        """
        ...


class DenyTableBuckets:
    """The guard of a server that knows nothing of tables: it leaves alone what it cannot judge."""

    async def authorize(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """Always refuses."""
        raise AccessDenied(f"the bucket holds tables, and this server does not serve them. bucket={bucket.name}")

    async def check_write(self, tx: Transaction, bucket: Bucket, key: str, holder: KeyOwner | None = None) -> None:
        """Always refuses."""
        raise AccessDenied(f"the bucket holds tables, and this server does not serve them. bucket={bucket.name}")

    async def check_bucket_removal(self, tx: Transaction, bucket: Bucket) -> None:
        """Refuses for buckets that hold tables."""
        if bucket.holds_tables:
            raise AccessDenied(f"the bucket holds tables, and this server does not serve them. bucket={bucket.name}")


DENY_TABLE_BUCKETS: Final = DenyTableBuckets()


class NameReservations(Protocol):
    """Names that this server keeps for itself, beyond what S3 forbids."""

    def check_bucket(self, name: str) -> None:
        """Raise InvalidName, with the reason, unless a bucket of the name may be made."""
        ...

    def check_key(self, bucket: str, key: str) -> None:
        """Raise InvalidName, with the reason, unless the key may be written in the bucket."""
        ...


class NoReservedNames:
    """Every name is free."""

    def check_bucket(self, name: str) -> None:
        """Never refuses."""

    def check_key(self, bucket: str, key: str) -> None:
        """Never refuses."""


NO_RESERVED_NAMES: Final = NoReservedNames()


class ReadEventSink(Protocol):
    """Those who have asked to be told of what changes nothing: of reads, and of deletions of what was not there."""

    def wants(self, bucket: Bucket, kind: str) -> bool:
        """Whether an event of that kind is to be made of something in the bucket."""
        ...

    def emit(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Something was done with an object: has an event made of it, soon, if somebody wants one."""
        ...


class NoReadEvents:
    """Nobody has asked."""

    def wants(self, bucket: Bucket, kind: str) -> bool:
        """No."""
        return False

    def emit(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """It is let go."""


NO_READ_EVENTS: Final = NoReadEvents()


@dataclass(frozen=True, slots=True)
class ObjectContext:
    """The stores and the gate. Made once, in `server`."""

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
    """How long a dropped blob stays for readers that have not opened it yet; a local file needs none."""
    table_buckets: TableBucketAuthorizer = DENY_TABLE_BUCKETS
    """Asked besides the authorizer about keys of buckets that hold tables."""
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
        """Ask whether `caller` may do `action` on the bucket, or on a key of it. Raises AccessDenied."""
        resource = f"arn:aws:s3:::{bucket.name}" if key is None else f"arn:aws:s3:::{bucket.name}/{key}"
        await self.authorize_resource(caller, bucket.access_rules, action, resource, extra)

    def precheck(self, caller: Caller, rules: ResourceRules, actions: Sequence[str], resource: str = "") -> None:
        """Refuse a caller to whom no request with one of these actions could be allowed. Raises AccessDenied.

        For requests whose bodies say more of what is asked: before those are read. `authorize` decides after it. An
        empty resource is not known yet.
        """
        principal = caller.principal
        if any(self.authorizer.could_allow(AccessRequest(principal, one, resource), rules) for one in actions):
            return
        who = "anonymous" if principal.is_anonymous else principal.caller_arn
        raise AccessDenied(
            f"no policy allows it. principal={who} action={' or '.join(actions)} resource={resource or 'any'}"
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
        """Ask whether `caller` may do `action` on a resource under these rules. Raises AccessDenied, Unavailable.

        `securable` and `privileges` are the same in the words of grants, where there are such words for it; `target`
        is the same by its names. Not inside a transaction: the answer may come from elsewhere.
        """
        principal = caller.principal
        context: ConditionKeys = {}
        if rules.policy is not None or principal.policies or principal.session is not None or self.needs_full_context:
            # Some document will be evaluated, so its conditions need the facts.
            context = self._condition_keys(caller, rules.owner) | (extra or {})
        await self.authorizer.authorize(
            AccessRequest(principal, action, resource, context, securable, privileges, target, caller.request_id), rules
        )

    @property
    def needs_full_context(self) -> bool:
        """Whether questions are asked with all that is known of a request."""
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
        """Those of `targets` that a list shows to a caller who may see the list. Raises Unavailable."""
        context = self._condition_keys(caller, rules.owner) | extra
        request = AccessRequest(caller.principal, action, resource, context, request_id=caller.request_id)
        return await self.authorizer.visible(request, rules, targets)

    async def authorize_account(
        self, caller: Caller, action: str, resource: str, extra: ConditionKeys | None = None
    ) -> None:
        """Ask the same of what nobody owns yet: the caller's own account decides. Raises AccessDenied."""
        await self.authorize_resource(caller, ResourceRules(owner=caller.principal.account), action, resource, extra)

    def _condition_keys(self, caller: Caller, owner: str) -> ConditionKeys:
        """What policies may ask of any request."""
        return {
            "aws:SourceIp": caller.source_ip,
            "aws:SecureTransport": "true" if caller.secure else "false",
            "aws:RequestedRegion": self.region,
            "aws:ResourceAccount": owner,
            "s3:ResourceAccount": owner,
            **caller.conditions(),
        }

    async def bucket(self, reader: Reader, name: str) -> Bucket:
        """The bucket of that name. Raises NoSuchBucket."""
        row = await reader.row(BUCKET_BY_NAME, name)
        if row is None:
            raise NoSuchBucket(f"no such bucket. bucket={name}")
        return bucket_from(row)
