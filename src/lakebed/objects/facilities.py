"""What the use cases of this package share: stores, clock, keys, and the gate that every one of them passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from lakebed.core.access import AccessRequest, Authorizer, ResourceRules
from lakebed.core.clock import Clock
from lakebed.core.errors import NoSuchBucket
from lakebed.core.ids import BlobId
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader
from lakebed.storage.seam import ObjectStorage

from .bucket import Bucket, bucket_from
from .contents import Contents
from .ingest import Ingester
from .model import Caller
from .rows import BUCKET_BY_NAME


class Reaper(Protocol):
    """Removes blobs that nothing refers to any more, soon and in the background."""

    def wake(self, blobs: Iterable[BlobId]) -> None:
        """These have just become garbage."""
        ...


@dataclass(frozen=True, slots=True)
class Facilities:
    """The stores and the gate. Made once, in `server`."""

    meta: MetaStore
    outbox: Outbox
    storage: ObjectStorage
    ingester: Ingester
    contents: Contents
    authorizer: Authorizer
    clock: Clock
    reaper: Reaper
    region: str = "us-east-1"
    default_encryption: bool = False
    garbage_grace_ms: int = 0
    """How long a dropped blob stays for readers that have not opened it yet; a local file needs none."""

    def authorize(
        self,
        caller: Caller,
        bucket: Bucket,
        action: str,
        key: str | None = None,
        extra: dict[str, str | tuple[str, ...]] | None = None,
    ) -> None:
        """Ask whether `caller` may do `action` on the bucket, or on a key of it. Raises AccessDenied."""
        resource = f"arn:aws:s3:::{bucket.name}" if key is None else f"arn:aws:s3:::{bucket.name}/{key}"
        rules = bucket.access_rules
        principal = caller.principal
        context: dict[str, str | tuple[str, ...]] = {}
        if rules.policy is not None or principal.policies or principal.session is not None:
            # Some document will be evaluated, so its conditions need the facts.
            context = {
                "aws:SourceIp": caller.source_ip,
                "aws:SecureTransport": "true" if caller.secure else "false",
                **caller.conditions(),
                **(extra or {}),
            }
        self.authorizer.authorize(AccessRequest(principal, action, resource, context), rules)

    async def bucket(self, reader: Reader, name: str) -> Bucket:
        """The bucket of that name. Raises NoSuchBucket."""
        row = await reader.row(BUCKET_BY_NAME, name)
        if row is None:
            raise NoSuchBucket(f"no such bucket. bucket={name}")
        return bucket_from(row)

    def unowned_rules(self, caller: Caller) -> ResourceRules:
        """The rules of a resource that nobody owns yet: the caller's own account decides."""
        return ResourceRules(owner=caller.principal.account)
