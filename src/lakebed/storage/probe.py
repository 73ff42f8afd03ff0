"""Probes at start whether a store supports conditional writes, and rejects one that does not.

Some stores ignore `If-None-Match` and `If-Match` and report success. Then two writers could both believe that they won,
without any error. So each condition is tested on a scratch key: it is created, created again, replaced with the current
and with a stale ETag, and removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar, runtime_checkable

from ..core.errors import AlreadyExists, LakebedError, NotSupported, PreconditionFailed, Unavailable, WriteConflict
from .seam import IfAbsent, IfMatch, Key, ObjectStorage, ObjectVersion, WriteCondition

__all__ = ["CONDITIONS_TRUSTED", "NO_CONDITIONS", "AdoptsCapabilities", "Capabilities", "ETagStyle", "probe_conditions"]

TRIES: Final = 5
"""Attempts of an undecided write. The key is unique, so even one conflict is unexpected."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class ETagStyle(Enum):
    """How an ETag is written in `If-Match`. The standard requires quotes; some stores match only without."""

    QUOTED = "quoted"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Conditional writes that a store supports."""

    conditional_put: bool
    """If-None-Match and If-Match on PutObject."""

    conditional_complete: bool
    """The same on CompleteMultipartUpload."""

    etag_style: ETagStyle = ETagStyle.QUOTED


CONDITIONS_TRUSTED: Final = Capabilities(conditional_put=True, conditional_complete=True)
"""For a store that was already probed."""

NO_CONDITIONS: Final = Capabilities(conditional_put=False, conditional_complete=False)
"""For a store that is known to support none."""


@runtime_checkable
class AdoptsCapabilities(Protocol):
    """A store that adapts to the probe: it uses the ETag style, and rejects unsupported conditions."""

    def adopt(self, capabilities: Capabilities) -> None:
        """Use these capabilities from now on."""
        ...


async def probe_conditions(storage: ObjectStorage, scratch: Key) -> Capabilities:
    """The capabilities of `storage`, tested on the unique key `scratch`, which is removed afterwards.

    Costs about a dozen small requests. Raises NotSupported, with advice, if conditions on whole objects are ignored. A
    store that only ignores them on completion is reported so. After other errors nothing is known.
    """
    first = await _first_write(storage, scratch)
    try:
        await _expect_rejection(
            "If-None-Match", AlreadyExists, lambda: storage.put_if_absent(scratch, b"created though present")
        )
        style, second = await _find_style(storage, scratch, first)
        await _expect_rejection(
            "If-Match", PreconditionFailed, lambda: storage.put_if_match(scratch, b"replaced though stale", first.etag)
        )
        found = Capabilities(
            conditional_put=True,
            conditional_complete=await _supports_on_completion(storage, scratch, first, second),
            etag_style=style,
        )
    finally:
        await asyncio.shield(_remove(storage, scratch))
    if isinstance(storage, AdoptsCapabilities):
        storage.adopt(found)
    return found


async def _first_write(storage: ObjectStorage, scratch: Key) -> ObjectVersion:
    """Create the scratch object. After a failure it is removed only if it may exist."""
    try:
        return await _retry_conflicts(lambda: storage.put_if_absent(scratch, b"first"))
    except LakebedError as error:
        if isinstance(error, WriteConflict) or (isinstance(error, Unavailable) and error.undecided):
            await asyncio.shield(_remove(storage, scratch))
        raise
    except BaseException:
        await asyncio.shield(_remove(storage, scratch))
        raise


async def _find_style(storage: ObjectStorage, scratch: Key, first: ObjectVersion) -> tuple[ETagStyle, ObjectVersion]:
    """The ETag style with which a replacement succeeds."""
    styles = list(ETagStyle) if isinstance(storage, AdoptsCapabilities) else [ETagStyle.QUOTED]
    for style in styles:
        if isinstance(storage, AdoptsCapabilities):
            storage.adopt(Capabilities(conditional_put=True, conditional_complete=True, etag_style=style))
        try:
            second = await _retry_conflicts(lambda: storage.put_if_match(scratch, b"second", first.etag))
        except PreconditionFailed:
            continue
        if second.etag == first.etag:
            raise _unsupported("the ETag does not change with the content")
        return style, second
    raise _unsupported("If-Match fails although the ETag is right")


async def _supports_on_completion(
    storage: ObjectStorage, scratch: Key, stale: ObjectVersion, current: ObjectVersion
) -> bool:
    """Whether multipart uploads complete exactly if their condition holds."""
    if await _completes(storage, scratch, IfAbsent()) or await _completes(storage, scratch, IfMatch(stale.etag)):
        return False
    return await _completes(storage, scratch, IfMatch(current.etag))


async def _completes(storage: ObjectStorage, scratch: Key, condition: WriteCondition) -> bool:
    try:
        upload = await storage.start_multipart(scratch)
    except NotSupported:
        return False
    try:
        part = await upload.upload_part(1, b"completed")
        await upload.complete([part], condition)
    except (AlreadyExists, PreconditionFailed, NotSupported, WriteConflict):
        await upload.abort()
        return False
    except BaseException:
        await asyncio.shield(upload.abort())
        raise
    return True


async def _expect_rejection(
    header: str, rejection: type[LakebedError], write: Callable[[], Awaitable[ObjectVersion]]
) -> None:
    try:
        await _retry_conflicts(write)
    except rejection:
        return
    raise _unsupported(f"{header} is ignored: a write succeeded whose condition is false")


async def _retry_conflicts(write: Callable[[], Awaitable[T]]) -> T:
    """The result of a write, retried after conflicts."""
    for _ in range(TRIES - 1):
        try:
            return await write()
        except WriteConflict:
            continue
    return await write()


async def _remove(storage: ObjectStorage, scratch: Key) -> None:
    try:
        await storage.delete(scratch)
    except LakebedError as error:
        # A policy may allow writes and no deletes; the result of the probe is valid all the same.
        log.warning("the probe's scratch object could not be removed. key=%s reason=%s", scratch, error)


def _unsupported(reason: str) -> NotSupported:
    return NotSupported(
        f"the store is not safe for several writers: {reason}. Use a store, or a version of it, that supports"
        " conditional writes; or, with a single writer, turn conditional writes off in the settings, and operations"
        " that require them are rejected"
    )
