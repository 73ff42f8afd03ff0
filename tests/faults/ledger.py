"""What a client may rely on: the state of its keys, the changes behind it, and the one change nobody confirmed.

The rule that the kill test checks: an acknowledged change is there for good; one that was under way when the server
died has happened wholly or not at all, and which of the two is found out by looking.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

PLAIN: Final = "kill-plain"
VERSIONED: Final = "kill-versioned"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of an object, known by their digests."""

    etag: str
    size: int
    sha256: str
    has_checksum: bool = False
    """Whether its SHA-256 was sent with it, to be kept and given back."""

    @property
    def checksum(self) -> str:
        """The SHA-256 as S3's headers have it."""
        return base64.b64encode(bytes.fromhex(self.sha256)).decode()


def content_of(body: bytes, *, has_checksum: bool = False) -> Content:
    """The content of an object put whole."""
    md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
    return Content(md5, len(body), hashlib.sha256(body).hexdigest(), has_checksum)


def content_of_parts(parts: Sequence[bytes]) -> Content:
    """The content of an object uploaded in parts."""
    digests = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
    body = b"".join(parts)
    return Content(etag, len(body), hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key; without content it is a delete marker."""

    id: str
    content: Content | None


@dataclass(frozen=True, slots=True)
class Change:
    """A committed change, as its event tells of it."""

    kind: str
    bucket: str
    key: str
    etag: str = ""
    size: int = 0
    version: str = ""
    request_id: str = ""
    """Empty if the change happened without its client having heard of it."""

    def told_by(self, other: Change) -> bool:
        """Whether `other`, an event, tells of this change."""
        return replace(other, request_id=self.request_id) == self and self.request_id in ("", other.request_id)


def change_of(kind: str, bucket: str, key: str, content: Content | None, version: str = "") -> Change:
    """The change of one object."""
    if content is None:
        return Change(kind, bucket, key, version=version)
    return Change(kind, bucket, key, content.etag, content.size, version)


@dataclass(frozen=True, slots=True)
class PlainStep:
    """One key of the plain bucket on its way from what it holds to `new`."""

    key: str
    new: Content | None
    change: Change


@dataclass(frozen=True, slots=True)
class VersionStep:
    """A version on its way: put in front of its key's others, or removed."""

    key: str
    change: Change
    pushed: Version | None = None
    """Its id is empty as long as the server has not told it."""
    removed: str = ""

    def happened_in(self, before: Sequence[Version], now: Sequence[Version]) -> Version | bool | None:
        """What became of it: the version pushed, whether one was removed, or None if `now` is neither state."""
        if list(now) == list(before):
            return False
        if self.pushed is not None:
            if now and list(now[1:]) == list(before) and now[0].content == self.pushed.content:
                return now[0]
            return None
        return True if list(now) == [one for one in before if one.id != self.removed] else None


Step = PlainStep | VersionStep


@dataclass(slots=True)
class Ledger:
    """One client's knowledge. Only that client writes its keys, one request at a time."""

    plain: dict[str, Content | None] = field(default_factory=dict)
    versioned: dict[str, list[Version]] = field(default_factory=dict)
    journal: list[Change] = field(default_factory=list)
    pending: list[Step] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Keys that were written since they were last read back."""
    acknowledged: int = 0
    happened: int = 0
    """Unconfirmed changes that had happened."""
    vanished: int = 0
    """Unconfirmed changes that had not."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """Kinds of both."""

    def begin(self, steps: Sequence[Step]) -> None:
        """These are about to be asked for."""
        assert not self.pending, "a client has one request under way"
        self.pending = list(steps)
        self.touched.update(step.key for step in steps)

    def confirm(self, request_id: str, version: str = "") -> None:
        """The server acknowledged all that was pending."""
        self.acknowledged += 1
        for step in self.pending:
            change = replace(step.change, request_id=request_id)
            self._apply(step, replace(change, version=version) if version else change, version)
        self.pending = []

    def refuse(self) -> None:
        """The server answered that nothing happened."""
        self.pending = []

    def settle_plain(self, step: PlainStep, *, happened: bool) -> None:
        """It was found out what became of an unconfirmed change."""
        self._settle(step, happened=happened)
        if happened:
            self._apply(step, step.change)

    def settle_version(self, step: VersionStep, outcome: Version | bool) -> None:
        """Likewise, for a version; the id of one that was pushed is known now."""
        self._settle(step, happened=bool(outcome))
        if isinstance(outcome, Version):
            self._apply(step, replace(step.change, version=outcome.id), outcome.id)
        elif outcome:
            self._apply(step, step.change)

    def _settle(self, step: Step, *, happened: bool) -> None:
        self.pending.remove(step)
        self.unanswered[step.change.kind] += 1
        if happened:
            self.happened += 1
        else:
            self.vanished += 1

    def _apply(self, step: Step, change: Change, version: str = "") -> None:
        self.journal.append(change)
        if isinstance(step, PlainStep):
            self.plain[step.key] = step.new
        elif step.pushed is not None:
            self.versioned[step.key].insert(0, Version(version, step.pushed.content))
        else:
            self.versioned[step.key] = [one for one in self.versioned[step.key] if one.id != step.removed]
