"""Objects written, read, listed and removed as a byte store does it, on scratch keys that nobody else uses.

Over the seam, so that what is tried is what a server would send. Whatever was made is known by name: the last step
removes it, and `clean_up` does where that step does not come.
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
    """The steps with objects. `storage` has nothing under its prefix but what is made here."""

    def __init__(self, storage: ObjectStorage, *, conditional_writes: bool = True) -> None:
        self._storage = storage
        self._conditional_writes = conditional_writes
        self._small = os.urandom(64)
        self._tried: set[Key] = set()
        self._written: set[Key] = set()
        self.keeps_versions = False
        """Whether removing an object leaves versions of it."""

    def track(self, key: Key) -> None:
        """Something may be written under this name by another step: it is to be removed in the end."""
        self._tried.add(key)

    async def put(self) -> StepFinding:
        """Write a small object, and read it back."""
        self._tried.add(SMALL)
        version = await self._storage.put(SMALL, self._small)
        self._written.add(SMALL)
        self.keeps_versions = version.version not in (None, "", "null")
        if await self._storage.get(SMALL) != self._small:
            raise StepFailed(
                "what was read is not what had been written",
                "Something between here and the store changes bodies, such as a proxy or a cache: go around it.",
            )
        return StepFinding(
            f"{len(self._small)} bytes written and read" + (", versioned" if self.keeps_versions else "")
        )

    async def put_conditionally(self) -> StepFinding:
        """See that conditions on writes are honoured, and false ones refused."""
        if not self._conditional_writes:
            return StepFinding(
                "switched off",
                StepOutcome.SKIPPED,
                "storage.s3.conditional_put is disabled: one server at a time may write to the store",
            )
        self._tried.add(CONDITIONED)
        found = await probe_conditions(self._storage, CONDITIONED)
        if not found.conditional_complete:
            return StepFinding(
                "honoured, but not when an upload in parts completes",
                why="large files are written without a condition; their names are not used twice",
            )
        return StepFinding("If-None-Match and If-Match are honoured")

    async def upload_in_parts(self) -> StepFinding:
        """Upload two parts, give up a third upload."""
        self._tried.add(LARGE)
        upload = await self._storage.start_multipart(LARGE)
        try:
            parts = [
                await upload.upload_part(1, bytes(MIN_PART_BYTES)),
                await upload.upload_part(2, self._small * (_LAST_PART_BYTES // len(self._small))),
            ]
            await upload.complete(parts)
        except BaseException:
            # Whatever becomes of that: the error that led here is the one to tell.
            with contextlib.suppress(LakebedError):
                await asyncio.shield(upload.abort())
            raise
        self._written.add(LARGE)
        size = (await self._storage.head(LARGE)).size
        if size != MIN_PART_BYTES + _LAST_PART_BYTES:
            raise StepFailed(
                f"the object is {size} bytes long, and its parts {MIN_PART_BYTES + _LAST_PART_BYTES}",
                "The store joins parts wrongly: do not use this version of it.",
            )
        await (await self._storage.start_multipart(LARGE)).abort()
        return StepFinding("2 parts joined, 1 upload given up")

    async def list_written(self) -> StepFinding:
        """Find by name what was written so far."""
        listed = [found.key async for found in self._storage.list_prefix()]
        missing = sorted(self._written.difference(listed))
        if missing:
            raise StepFailed(
                f"objects that were written are not in the list: {', '.join(missing)}",
                "Maintenance and clean-up go by lists. Use a store whose lists show what was acknowledged.",
            )
        return StepFinding(f"{len(listed)} objects" if listed else "allowed; nothing is there")

    async def get_range(self) -> StepFinding:
        """Read some bytes out of the middle."""
        start, end = _RANGE
        found = await self._storage.get_range(SMALL, start, end)
        if found != self._small[start:end]:
            raise StepFailed(
                f"the bytes {start} to {end - 1} are others than were written",
                "Engines read files by ranges: a proxy or cache in between that answers them wrongly has to go.",
            )
        return StepFinding(f"bytes {start} to {end - 1} of {len(self._small)}")

    async def delete(self) -> StepFinding:
        """Remove all, and see that it is gone."""
        removed = sorted(self._tried)
        await self._storage.delete_many(removed)
        left = [found.key async for found in self._storage.list_prefix()]
        if left:
            raise StepFailed(
                f"what was removed is still listed: {', '.join(left)}",
                "See whether a lock or a retention rule of the bucket keeps objects.",
            )
        self._tried.clear()
        return StepFinding("nothing is left")

    async def clean_up(self) -> list[str]:
        """Remove whatever is there; what could not be removed. Never raises but for cancellation."""
        problems: list[str] = []
        try:
            async for upload in self._storage.list_uploads():
                await self._storage.abort_upload(upload.key, upload.upload_id)
        except LakebedError:
            # Who may not list them has not begun any that was not given up above.
            pass
        for key in sorted(self._tried):
            try:
                await self._storage.delete(key)
            except LakebedError:
                if await self._may_be_there(key):
                    problems.append(key)
        return problems

    async def _may_be_there(self, key: Key) -> bool:
        try:
            await self._storage.head(key)
        except NotFound:
            return False
        except LakebedError:
            return key in self._written
        return True
