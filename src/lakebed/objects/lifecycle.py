"""Applies lifecycle rules: expires objects and noncurrent versions, deletes expired markers, aborts incomplete uploads.

A scan finds the keys with due actions. The transaction that executes them evaluates the rules again, because an object
may have been rewritten since the scan. Rules were authorized when they were put; events name the rule.

Objects in table buckets do not expire, because only the table metadata knows whether a file is in use. Incomplete
uploads are aborted there too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from lakebed.core.access import Principal
from lakebed.core.ids import UploadId
from lakebed.meta.seam import Transaction

from . import rows
from .buckets.bucket import Bucket, bucket_from
from .config.expiry import DueAction, DueKind, LifecycleVersion, due_actions, upload_expires_at
from .config.lifecycle import LifecycleConfiguration
from .context import ObjectContext
from .deleting import is_protected
from .events import emit_object_event
from .model import Caller, StoredObject
from .multipart import delete_upload
from .publishing import NewGarbage, add_marker, current_of, remove_current, remove_version
from .rows import upload_from, version_from

_BATCH = 500
_KEYS_A_COMMIT = 64
_USER_AGENT = "Internal: [ILM-Expiry]"
"""The user agent in events, as in other S3 servers."""


@dataclass(slots=True)
class LifecycleReport:
    """What one run did."""

    expired: int = 0
    versions_removed: int = 0
    markers_removed: int = 0
    uploads_aborted: int = 0


class LifecycleRunner:
    """Applies the rules of all buckets."""

    def __init__(self, context: ObjectContext, *, day_ms: int) -> None:
        self._context = context
        self._day_ms = day_ms

    async def run(self) -> LifecycleReport:
        """Run once. Scans every bucket with rules."""
        report = LifecycleReport()
        after = ""
        while found := await self._context.meta.rows(rows.ALL_BUCKETS, after, _BATCH):
            for bucket in map(bucket_from, found):
                after = bucket.name
                rules = bucket.settings.lifecycle
                if rules is not None and rules.enabled_rules:
                    await self._abort_uploads(bucket, rules, report)
                    if not bucket.holds_tables:
                        await self._expire(bucket, rules, report)
        return report

    async def _expire(self, bucket: Bucket, rules: LifecycleConfiguration, report: LifecycleReport) -> None:
        now_ms = self._context.clock.now_ms()
        due: list[str] = []
        async for key, versions in self._keys(bucket):
            if self._due(rules, key, versions, now_ms):
                due.append(key)
            if len(due) >= _KEYS_A_COMMIT:
                await self._execute(bucket, due, report)
                due = []
        if due:
            await self._execute(bucket, due, report)

    def _due(
        self, rules: LifecycleConfiguration, key: str, versions: Sequence[StoredObject], now_ms: int
    ) -> list[DueAction]:
        candidates = [
            LifecycleVersion(v.version, v.modified_ms, v.size, v.attributes.tags, v.is_marker) for v in versions
        ]
        return due_actions(rules, key, candidates, now_ms, day_ms=self._day_ms)

    async def _keys(self, bucket: Bucket) -> AsyncIterator[tuple[str, Sequence[StoredObject]]]:
        """Every key with all its versions, newest first."""
        after = ""
        while True:
            found = await rows.all_versions_after(self._context.meta, bucket.id, after, _BATCH)
            versions = [version_from(row) for row in found]
            groups = [(key, list(group)) for key, group in groupby(versions, key=attrgetter("key"))]
            if len(found) == _BATCH:
                # The last key may continue on the next page, so it is read again completely.
                if len(groups) == 1:
                    key = groups[0][0]
                    whole = await self._context.meta.rows(rows.ALL_VERSIONS_OF, bucket.id, key, bucket.id, key)
                    groups = [(key, [version_from(row) for row in whole])]
                else:
                    groups.pop()
            for key, group in groups:
                after = key
                yield key, group
            if len(found) < _BATCH:
                return

    async def _execute(self, bucket: Bucket, keys: Sequence[str], report: LifecycleReport) -> None:
        context = self._context
        now_ms = context.clock.now_ms()

        async def work(tx: Transaction, garbage: NewGarbage) -> list[DueKind]:
            # Evaluate again: rules, versioning and keys may have changed since the scan.
            row = await tx.row(rows.BUCKET_BY_NAME, bucket.name)
            now = None if row is None else bucket_from(row)
            if now is None or now.id != bucket.id or now.settings.lifecycle is None or now.holds_tables:
                return []
            done: list[DueKind] = []
            for key in keys:
                found = await tx.rows(rows.ALL_VERSIONS_OF, bucket.id, key, bucket.id, key)
                for action in self._due(now.settings.lifecycle, key, [version_from(row) for row in found], now_ms):
                    if await self._one(tx, now, key, action, now_ms, garbage):
                        done.append(action.kind)
            return done

        for kind in await context.transact(work):
            if kind is DueKind.EXPIRE_CURRENT:
                report.expired += 1
            elif kind is DueKind.DELETE_NONCURRENT:
                report.versions_removed += 1
            else:
                report.markers_removed += 1

    async def _one(
        self, tx: Transaction, bucket: Bucket, key: str, action: DueAction, now_ms: int, garbage: NewGarbage
    ) -> bool:
        """Execute an action, unless object lock forbids it."""
        context = self._context
        caller = _caller(bucket, action.rule_id)
        current = await current_of(tx, bucket, key)
        if action.kind is DueKind.EXPIRE_CURRENT:
            if current is None:
                return False
            if bucket.keeps_versions:
                version = bucket.new_version(context.clock)
                marker = await add_marker(tx, bucket, current, key, version, now_ms, garbage)
                event = "LifecycleExpiration:DeleteMarkerCreated"
                await emit_object_event(context.outbox, tx, event, bucket, marker, caller, now_ms)
            else:
                await remove_current(tx, bucket, current, garbage)
                await emit_object_event(
                    context.outbox, tx, "LifecycleExpiration:Delete", bucket, current, caller, now_ms
                )
            return True
        row = await tx.row(rows.VERSION, bucket.id, key, action.version_id)
        if row is None:
            return False
        found = version_from(row)
        if is_protected(found, now_ms):
            return False
        await remove_version(tx, bucket, found, has_current=current is not None, garbage=garbage)
        is_marker = action.kind is DueKind.DELETE_MARKER
        event = "LifecycleDelMarkerExpiration:Delete" if is_marker else "LifecycleExpiration:Delete"
        remains = await current_of(tx, bucket, key) is not None
        await emit_object_event(context.outbox, tx, event, bucket, found, caller, now_ms, remains=remains)
        return True

    async def _abort_uploads(self, bucket: Bucket, rules: LifecycleConfiguration, report: LifecycleReport) -> None:
        context = self._context
        now_ms = context.clock.now_ms()
        key, upload_id = "", ""
        while found := await context.meta.rows(rows.UPLOADS_AFTER, bucket.id, key, upload_id, _BATCH):
            for upload in map(upload_from, found):
                key, upload_id = upload.key, upload.id
                due = upload_expires_at(rules, key, upload.started_ms, day_ms=self._day_ms)
                if due is not None and due.at_ms <= now_ms:
                    await self._abort(upload.id)
                    report.uploads_aborted += 1

    async def _abort(self, upload: UploadId) -> None:
        async def work(tx: Transaction, garbage: NewGarbage) -> None:
            row = await tx.row(rows.UPLOAD, upload)
            if row is not None and upload_from(row).finished_ms is None:
                await delete_upload(tx, upload, garbage)

        await self._context.transact(work)


def _caller(bucket: Bucket, rule: str) -> Caller:
    principal = Principal(name=f"lifecycle:{rule}", account=bucket.owner, arn=f"arn:aws:iam::{bucket.owner}:root")
    return Caller(principal, user_agent=_USER_AGENT)
