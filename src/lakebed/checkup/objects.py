"""The steps with objects: write, read, list and delete scratch keys as a storage backend does.

Uses `ObjectStorage`, so that the check sends the requests of a server. All keys are tracked: the last step removes
them, or `clean_up` if that step does not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

from lakebed.core.errors import LakebedError, NotFound
from lakebed.storage.probe import probe_conditions
from lakebed.storage.seam import MIN_PART_BYTES, Key, ObjectStorage

from .model import StepFailed, StepFinding, StepOutcome

SMALL: Final = Key("small")
CONDITIONED: Final = Key("conditioned")
LARGE: Final = Key("large")
_LAST_PART_BYTES: Final = 1024
_RANGE: Final = (7, 19)


class ObjectSteps:
    """Writes and removes scratch objects. The prefix of `storage` holds objects of this check only."""

    def __init__(self, storage: ObjectStorage, *, conditional_writes: bool = True) -> None:
        self._storage = storage
        self._conditional_writes = conditional_writes
        self._small = os.urandom(64)
        self._tracked: set[Key] = set()
        self._written: set[Key] = set()
        self.keeps_versions = False
        """Whether deleting an object leaves versions behind."""

    def track(self, key: Key) -> None:
        """Remove this key at the end: another step may write it."""
        self._tracked.add(key)

    async def put(self) -> StepFinding:
        """Write a small object, and read it back."""
        self._tracked.add(SMALL)
        version = await self._storage.put(SMALL, self._small)
        self._written.add(SMALL)
        self.keeps_versions = version.version not in (None, "", "null")
        if await self._storage.get(SMALL) != self._small:
            raise StepFailed(
                "the object read back differs from the one written",
                "A proxy or cache changes bodies: bypass it.",
            )
        return StepFinding(
            f"{len(self._small)} bytes written and read" + (", versioned" if self.keeps_versions else "")
        )

    async def put_conditionally(self) -> StepFinding:
        """Check that conditional writes succeed and fail as they must."""
        if not self._conditional_writes:
            return StepFinding(
                "disabled",
                StepOutcome.SKIPPED,
                "storage.s3.conditional_put is disabled: one server at a time may write to the store",
            )
        self._tracked.add(CONDITIONED)
        found = await probe_conditions(self._storage, CONDITIONED)
        if not found.conditional_complete:
            return StepFinding(
                "honoured, except when a multipart upload completes",
                why="large files are written without conditions; their keys are never reused",
            )
        return StepFinding("If-None-Match and If-Match are honoured")

    async def upload_multipart(self) -> StepFinding:
        """Complete an upload of two parts, and abort another."""
        self._tracked.add(LARGE)
        upload = await self._storage.start_multipart(LARGE)
        try:
            parts = [
                await upload.upload_part(1, bytes(MIN_PART_BYTES)),
                await upload.upload_part(2, self._small * (_LAST_PART_BYTES // len(self._small))),
            ]
            await upload.complete(parts)
        except BaseException:
            # Report the original error, even if the abort fails.
            with contextlib.suppress(LakebedError):
                await asyncio.shield(upload.abort())
            raise
        self._written.add(LARGE)
        size = (await self._storage.head(LARGE)).size
        if size != MIN_PART_BYTES + _LAST_PART_BYTES:
            raise StepFailed(
                f"the object has {size} bytes, its parts have {MIN_PART_BYTES + _LAST_PART_BYTES}",
                "The store assembles parts wrongly: do not use this version.",
            )
        await (await self._storage.start_multipart(LARGE)).abort()
        return StepFinding("2 parts completed, 1 upload aborted")

    async def list_written(self) -> StepFinding:
        """List the written objects."""
        listed = [found.key async for found in self._storage.list_prefix()]
        missing = sorted(self._written.difference(listed))
        if missing:
            raise StepFailed(
                f"the listing lacks written objects: {', '.join(missing)}",
                "Maintenance and garbage collection rely on consistent listings. Use a store with strong list"
                " consistency.",
            )
        return StepFinding(f"{len(listed)} objects" if listed else "allowed; no objects")

    async def get_range(self) -> StepFinding:
        """Read a range."""
        start, end = _RANGE
        found = await self._storage.get_range(SMALL, start, end)
        if found != self._small[start:end]:
            raise StepFailed(
                f"bytes {start} to {end - 1} differ from those written",
                "Engines read files by range: remove the proxy or cache that answers ranges wrongly.",
            )
        return StepFinding(f"bytes {start} to {end - 1} of {len(self._small)}")

    async def delete(self) -> StepFinding:
        """Delete all objects, and check that the listing is empty."""
        removed = sorted(self._tracked)
        await self._storage.delete_many(removed)
        left = [found.key async for found in self._storage.list_prefix()]
        if left:
            raise StepFailed(
                f"deleted objects are still listed: {', '.join(left)}",
                "Check whether object lock or a retention rule of the bucket keeps objects.",
            )
        self._tracked.clear()
        return StepFinding("all objects deleted")

    async def clean_up(self) -> list[str]:
        """Remove remaining objects; the keys that could not be removed. Raises only CancelledError."""
        problems: list[str] = []
        try:
            async for upload in self._storage.list_uploads():
                await self._storage.abort_upload(upload.key, upload.upload_id)
        except LakebedError:
            # Without list permission, every upload of this check was aborted above.
            pass
        for key in sorted(self._tracked):
            try:
                await self._storage.delete(key)
            except LakebedError:
                if await self._may_exist(key):
                    problems.append(key)
        return problems

    async def _may_exist(self, key: Key) -> bool:
        try:
            await self._storage.head(key)
        except NotFound:
            return False
        except LakebedError:
            return key in self._written
        return True
