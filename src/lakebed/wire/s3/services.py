"""The services that S3 handlers call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.core.access import PolicyLanguage
from lakebed.core.clock import Clock
from lakebed.events.live.feed import LiveFeed
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.events.matching import NO_TARGETS, TargetLookup
from lakebed.events.rules import MAX_RULES, BucketNotifications
from lakebed.objects.buckets.service import BucketService
from lakebed.objects.context import ObjectContext, ReadEventSink
from lakebed.objects.copying import ObjectCopier
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.listing import Lister
from lakebed.objects.multipart import MultipartUploads
from lakebed.objects.reading import ObjectReader
from lakebed.objects.tags_and_locks import TagsAndLocks
from lakebed.objects.writing import ObjectWriter
from lakebed.select.model import QueryStats
from lakebed.select.seam import QueryRunner
from lakebed.wire.aws.authentication import SignatureAuthenticator


@dataclass(frozen=True, slots=True)
class S3Services:
    """The services of one process."""

    authenticator: SignatureAuthenticator
    buckets: BucketService
    reader: ObjectReader
    writer: ObjectWriter
    deleter: ObjectDeleter
    lister: Lister
    uploads: MultipartUploads
    copier: ObjectCopier
    tags_and_locks: TagsAndLocks
    notifications: BucketNotifications
    feed: LiveFeed
    read_events: ReadEventSink
    policies: PolicyLanguage
    clock: Clock
    region: str
    lifecycle_day_ms: int
    selects: QueryRunner | None
    """Runs S3 Select queries; None if they are not supported."""
    select_ended: Callable[[str, QueryStats], None]
    """Called with the outcome and the statistics of each query."""

    @classmethod
    def on(
        cls,
        object_context: ObjectContext,
        authenticator: SignatureAuthenticator,
        *,
        policies: PolicyLanguage,
        lifecycle_day_ms: int,
        selects: QueryRunner | None = None,
        select_ended: Callable[[str, QueryStats], None] = lambda *_: None,
        feed: LiveFeed | None = None,
        targets: TargetLookup = NO_TARGETS,
        rules_per_bucket: int = MAX_RULES,
    ) -> S3Services:
        """Create the services. Without a feed, they get one without listeners in other processes."""
        if feed is None:
            feed = LiveFeed(
                object_context.meta,
                object_context.outbox,
                ListenerRegistry(object_context.meta, object_context.clock, ""),
            )
        reader = ObjectReader(object_context)
        writer = ObjectWriter(object_context)
        uploads = MultipartUploads(object_context, writer)
        return cls(
            authenticator=authenticator,
            buckets=BucketService(object_context),
            reader=reader,
            writer=writer,
            deleter=ObjectDeleter(object_context),
            lister=Lister(object_context),
            uploads=uploads,
            copier=ObjectCopier(object_context, reader, writer, uploads),
            tags_and_locks=TagsAndLocks(object_context, reader),
            notifications=BucketNotifications(object_context, targets, max_rules=rules_per_bucket),
            feed=feed,
            read_events=object_context.read_events,
            policies=policies,
            clock=object_context.clock,
            region=object_context.region,
            lifecycle_day_ms=lifecycle_day_ms,
            selects=selects,
            select_ended=select_ended,
        )
