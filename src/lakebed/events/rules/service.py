"""Reads and replaces the notification configurations of buckets."""

from __future__ import annotations

from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.meta.seam import Transaction
from lakebed.objects import rows
from lakebed.objects.buckets.bucket import encode_settings
from lakebed.objects.buckets.notification_versions import latest_version, record_version
from lakebed.objects.context import ObjectContext
from lakebed.objects.events import emit_bucket_event
from lakebed.objects.model import Caller

from ..matching import TargetLookup
from .model import NotificationConfiguration, decode_configuration, encode_configuration
from .validation import MAX_RULES, check_configuration

READ: Final = "s3:GetBucketNotification"
WRITE: Final = "s3:PutBucketNotification"


class BucketNotifications:
    """The operations on notification configurations."""

    def __init__(self, context: ObjectContext, targets: TargetLookup, *, max_rules: int = MAX_RULES) -> None:
        self._context = context
        self._targets = targets
        self._max_rules = max_rules

    async def read(self, caller: Caller, bucket_name: str) -> NotificationConfiguration:
        """The configuration of a bucket. Raises NoSuchBucket, AccessDenied."""
        context = self._context
        bucket = await context.bucket(context.meta, bucket_name)
        await context.authorize(caller, bucket, READ)
        return decode_configuration(await latest_version(context.meta, bucket.name))

    async def authorize(self, caller: Caller, bucket_name: str) -> None:
        """Return if the caller has permission to replace the configuration. Raises NoSuchBucket, AccessDenied."""
        context = self._context
        await context.authorize(caller, await context.bucket(context.meta, bucket_name), WRITE)

    async def put(
        self, caller: Caller, bucket_name: str, configuration: NotificationConfiguration, *, checks_targets: bool = True
    ) -> None:
        """Replace the configuration. It applies to all events after the commit, in every process.

        With `checks_targets` False, targets need not exist yet. Raises InvalidInput, NoSuchBucket, AccessDenied.
        """
        context = self._context
        await self.authorize(caller, bucket_name)
        check_configuration(configuration, context.region, max_rules=self._max_rules)
        document = encode_configuration(configuration)
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction) -> None:
            bucket = await context.bucket(tx, bucket_name)
            if checks_targets:
                await self._check_targets(tx, configuration)
            settings = msgspec.structs.replace(bucket.settings, event_mask=configuration.mask)
            await tx.run(rows.UPDATE_BUCKET_SETTINGS, encode_settings(settings), bucket.id)
            seq = await emit_bucket_event(context.outbox, tx, "BucketConfigured", bucket, caller, now_ms)
            await record_version(tx, bucket.name, seq, document)

        await context.meta.transact(work)

    async def _check_targets(self, tx: Transaction, configuration: NotificationConfiguration) -> None:
        for target_id in dict.fromkeys(rule.target_id for rule in configuration.rules):
            if not await self._targets.exists(tx, target_id):
                arn = next(rule.arn for rule in configuration.rules if rule.target_id == target_id)
                raise InvalidInput(
                    "Unable to validate the following destination configurations: the target does not exist.",
                    argument="Queue",
                    value=arn[:200],
                )
