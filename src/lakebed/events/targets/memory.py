"""A target in memory: has what it was sent, in order, and fails as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from lakebed.core.errors import LakebedError, Unavailable

from .seam import Message, TargetKind, TargetSettings

NAME: Final = "memory"


class MemorySettings(TargetSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a target in memory can be told."""

    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    place: str = ""
    """Targets with the same place share what they have."""
    password: str = ""
    at_once: int = 4


class Mailbox:
    """What was sent to a place, and what it makes of more."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.tried = 0
        self.under_way: set[str] = set()
        """Keys of what is being taken."""
        self.most_under_way = 0
        self.failure: Callable[[Message], LakebedError | None] = lambda message: None
        """What is raised for a message; None if it is taken."""
        self.pause: Callable[[Message], asyncio.Event | None] = lambda message: None
        """What is waited for before a message is taken."""
        self.is_down = False


class MemoryTarget:
    """A `Target` on a mailbox. Refuses what the seam rules out: too many, two of a key, anything after `close`."""

    def __init__(self, box: Mailbox, *, at_once: int = 4) -> None:
        self._box = box
        self._at_once = at_once
        self._is_closed = False

    @property
    def at_once(self) -> int:
        """As it was made."""
        return self._at_once

    async def send(self, message: Message) -> None:
        """Put it into the box, or fail as the box says."""
        if self._is_closed:
            raise Unavailable("the target is closed")
        box = self._box
        box.tried += 1
        if message.key in box.under_way:
            raise RuntimeError(f"two messages of one key are under way. key={message.key}")
        if len(box.under_way) >= self._at_once:
            raise RuntimeError(f"more messages are under way than may be. at_once={self._at_once}")
        box.under_way.add(message.key)
        box.most_under_way = max(box.most_under_way, len(box.under_way))
        try:
            pause = box.pause(message)
            if pause is not None:
                await pause.wait()
            await self.check()
            failure = box.failure(message)
            if failure is not None:
                raise failure
            box.got.append(message)
        finally:
            box.under_way.discard(message.key)

    async def check(self) -> None:
        """Raises Unavailable while the box is down."""
        if self._box.is_down:
            raise Unavailable("the box is down")

    async def close(self) -> None:
        """Nothing is sent afterwards."""
        self._is_closed = True


def memory_kind(boxes: dict[str, Mailbox]) -> TargetKind[MemorySettings]:
    """Targets on boxes by their places; a box comes to be when it is first used."""

    def make(settings: MemorySettings) -> MemoryTarget:
        return MemoryTarget(boxes.setdefault(settings.place, Mailbox()), at_once=settings.at_once)

    return TargetKind(NAME, MemorySettings, make)
