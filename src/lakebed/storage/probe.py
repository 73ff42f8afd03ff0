"""Finding out at boot whether a store honours conditions on writes, and refusing to go on if it does not.

Some stores drop `If-None-Match` and `If-Match` and answer success. A writer that fences itself is a loud outage; a
condition that always holds is silent double ownership. So nothing is believed that was not seen: a scratch key is
created, created again, replaced with a right and with a stale ETag, and removed.
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
"""How often an undecided write is tried again; nobody else knows the key, so once is already strange."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class ETagStyle(Enum):
    """How an ETag is written in `If-Match`. The standard wants quotes; there are stores that match only without."""

    QUOTED = "quoted"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store was seen to honour."""

    conditional_put: bool
    """Create-only and compare-and-swap writes of whole objects."""

    conditional_complete: bool
    """The same when a multipart upload completes."""

    etag_style: ETagStyle = ETagStyle.QUOTED


CONDITIONS_TRUSTED: Final = Capabilities(conditional_put=True, conditional_complete=True)
"""For a store that was probed before."""

NO_CONDITIONS: Final = Capabilities(conditional_put=False, conditional_complete=False)
"""For a store that is known to have none."""


@runtime_checkable
class AdoptsCapabilities(Protocol):
    """A store that behaves by what was found out: it writes ETags in that style and refuses what is not honoured."""

    def adopt(self, capabilities: Capabilities) -> None:
        """Behave so from now on."""
        ...


async def probe_conditions(storage: ObjectStorage, scratch: Key) -> Capabilities:
    """What `storage` honours, seen on `scratch`, a key that nobody else uses and that is gone afterwards.

    About a dozen small requests. Raises NotSupported, saying what to do, if conditions on whole objects are ignored;
    a store that honours those but not at completion is reported so. Other errors mean that nothing was found out.
    """
    first = await _first_write(storage, scratch)
    try:
        await _must_lose(
            "If-None-Match", AlreadyExists, lambda: storage.put_if_absent(scratch, b"created though present")
        )
        style, second = await _find_style(storage, scratch, first)
        await _must_lose(
            "If-Match", PreconditionFailed, lambda: storage.put_if_match(scratch, b"replaced though stale", first.etag)
        )
        found = Capabilities(
            conditional_put=True,
            conditional_complete=await _honours_at_completion(storage, scratch, first, second),
            etag_style=style,
        )
    finally:
        await asyncio.shield(_remove(storage, scratch))
    if isinstance(storage, AdoptsCapabilities):
        storage.adopt(found)
    return found


async def _first_write(storage: ObjectStorage, scratch: Key) -> ObjectVersion:
    """Create the scratch object. Only where it may exist after a failure is it removed."""
    try:
        return await _settled(lambda: storage.put_if_absent(scratch, b"first"))
    except LakebedError as error:
        if isinstance(error, WriteConflict) or (isinstance(error, Unavailable) and error.undecided):
            await asyncio.shield(_remove(storage, scratch))
        raise
    except BaseException:
        await asyncio.shield(_remove(storage, scratch))
        raise


async def _find_style(storage: ObjectStorage, scratch: Key, first: ObjectVersion) -> tuple[ETagStyle, ObjectVersion]:
    """The way of writing the right ETag that succeeds."""
    styles = list(ETagStyle) if isinstance(storage, AdoptsCapabilities) else [ETagStyle.QUOTED]
    for style in styles:
        if isinstance(storage, AdoptsCapabilities):
            storage.adopt(Capabilities(conditional_put=True, conditional_complete=True, etag_style=style))
        try:
            second = await _settled(lambda: storage.put_if_match(scratch, b"second", first.etag))
        except PreconditionFailed:
            continue
        if second.etag == first.etag:
            raise _unfit("the ETag does not change with the content")
        return style, second
    raise _unfit("If-Match fails although the ETag is right")


async def _honours_at_completion(
    storage: ObjectStorage, scratch: Key, stale: ObjectVersion, current: ObjectVersion
) -> bool:
    """Whether a multipart upload completes exactly when its condition holds."""
    if await _completes(storage, scratch, IfAbsent()) or await _completes(storage, scratch, IfMatch(stale.etag)):
        return False
    return await _completes(storage, scratch, IfMatch(current.etag))


async def _completes(storage: ObjectStorage, scratch: Key, condition: WriteCondition) -> bool:
    upload = await storage.start_multipart(scratch)
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


async def _must_lose(header: str, loss: type[LakebedError], write: Callable[[], Awaitable[ObjectVersion]]) -> None:
    try:
        await _settled(write)
    except loss:
        return
    raise _unfit(f"{header} is ignored: a write went through that had to be refused")


async def _settled(write: Callable[[], Awaitable[T]]) -> T:
    """The result of a write once it is decided."""
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
        # A policy may allow writes and no deletes; what was found out holds all the same.
        log.warning("the scratch object of the probe is left behind. key=%s reason=%s", scratch, error)


def _unfit(what: str) -> NotSupported:
    return NotSupported(
        f"the store cannot be written to safely by several writers: {what}. Use a store with conditional writes, or a "
        "version of it that has them; or, if it will only ever have one writer, turn conditional writes off in the "
        "settings, and what needs them is refused"
    )
