"""Everything the S3 handlers call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.core.access import PolicyLanguage
from lakebed.core.clock import Clock
from lakebed.events.live.feed import Feed
from lakebed.events.live.interests import Interests
from lakebed.events.matching import NO_TARGETS, KnownTargets
from lakebed.events.rules import MAX_RULES, Notifications
from lakebed.objects.annotations import Annotations
from lakebed.objects.buckets.service import Buckets
from lakebed.objects.context import Facilities, Onlookers
from lakebed.objects.copying import ObjectCopier
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.listing import Lister
from lakebed.objects.multipart import MultipartUploads
from lakebed.objects.reading import ObjectReader
from lakebed.objects.writing import ObjectWriter
from lakebed.select.model import Counts
from lakebed.select.seam import Selecting
from lakebed.wire.aws.authentication import SignatureAuthenticator


@dataclass(frozen=True, slots=True)
class S3Services:
    """The use cases behind the wire."""

    authenticator: SignatureAuthenticator
    buckets: Buckets
    reader: ObjectReader
    writer: ObjectWriter
    deleter: ObjectDeleter
    lister: Lister
    uploads: MultipartUploads
    copier: ObjectCopier
    annotations: Annotations
    notifications: Notifications
    feed: Feed
    onlookers: Onlookers
    policies: PolicyLanguage
    clock: Clock
    region: str
    lifecycle_day_ms: int
    selects: Selecting | None
    """None where there is nothing to answer them with."""
    select_ended: Callable[[str, Counts], None]
    """Told how each select ended, and what it took."""

    @classmethod
    def on(
        cls,
        facilities: Facilities,
        authenticator: SignatureAuthenticator,
        *,
        policies: PolicyLanguage,
        lifecycle_day_ms: int,
        selects: Selecting | None = None,
        select_ended: Callable[[str, Counts], None] = lambda *_: None,
        feed: Feed | None = None,
        targets: KnownTargets = NO_TARGETS,
        rules_per_bucket: int = MAX_RULES,
    ) -> S3Services:
        """Wire the use cases over their facilities. Without a feed it is one that no other process knows of."""
        if feed is None:
            feed = Feed(facilities.meta, facilities.outbox, Interests(facilities.meta, facilities.clock, ""))
        reader = ObjectReader(facilities)
        writer = ObjectWriter(facilities)
        uploads = MultipartUploads(facilities, writer)
        return cls(
            authenticator=authenticator,
            buckets=Buckets(facilities),
            reader=reader,
            writer=writer,
            deleter=ObjectDeleter(facilities),
            lister=Lister(facilities),
            uploads=uploads,
            copier=ObjectCopier(facilities, reader, writer, uploads),
            annotations=Annotations(facilities, reader),
            notifications=Notifications(facilities, targets, max_rules=rules_per_bucket),
            feed=feed,
            onlookers=facilities.onlookers,
            policies=policies,
            clock=facilities.clock,
            region=facilities.region,
            lifecycle_day_ms=lifecycle_day_ms,
            selects=selects,
            select_ended=select_ended,
        )
