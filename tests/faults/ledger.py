"""The expected state of a client's keys: acknowledged changes, and the one change without a response.

The kill test checks this rule: an acknowledged change is permanent. A change in flight when the server dies has
happened completely or not at all, and the client checks which.
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
    """The digests and size of an object."""

    etag: str
    size: int
    sha256: str
    has_checksum: bool = False
    """Whether the SHA-256 was sent with the object, and should be returned with it."""

    @property
    def checksum(self) -> str:
        """The SHA-256 as in S3 headers."""
        return base64.b64encode(bytes.fromhex(self.sha256)).decode()


def content_of(body: bytes, *, has_checksum: bool = False) -> Content:
    """The content of an object stored by one PUT."""
    md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
    return Content(md5, len(body), hashlib.sha256(body).hexdigest(), has_checksum)


def content_of_parts(parts: Sequence[bytes]) -> Content:
    """The content of a multipart object."""
    digests = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
    body = b"".join(parts)
    return Content(etag, len(body), hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a key; without content a delete marker."""

    id: str
    content: Content | None


@dataclass(frozen=True, slots=True)
class Change:
    """A committed change, with the fields of its event."""

    kind: str
    bucket: str
    key: str
    etag: str = ""
    size: int = 0
    version: str = ""
    request_id: str = ""
    """Empty if the client got no response."""

    def matches_event(self, other: Change) -> bool:
        """Whether the event `other` describes this change."""
        return replace(other, request_id=self.request_id) == self and self.request_id in ("", other.request_id)


def change_of(kind: str, bucket: str, key: str, content: Content | None, version: str = "") -> Change:
    """The change of one object."""
    if content is None:
        return Change(kind, bucket, key, version=version)
    return Change(kind, bucket, key, content.etag, content.size, version)


@dataclass(frozen=True, slots=True)
class PlainStep:
    """A pending change of a key in the plain bucket to `new`."""

    key: str
    new: Content | None
    change: Change


@dataclass(frozen=True, slots=True)
class VersionStep:
    """A pending change of versions: one is added as the newest, or one is removed."""

    key: str
    change: Change
    pushed: Version | None = None
    """Its id is empty until the server returns it."""
    removed: str = ""

    def outcome_in(self, before: Sequence[Version], now: Sequence[Version]) -> Version | bool | None:
        """The added version, whether the removal happened, or None if `now` is neither state."""
        if list(now) == list(before):
            return False
        if self.pushed is not None:
            if now and list(now[1:]) == list(before) and now[0].content == self.pushed.content:
                return now[0]
            return None
        return True if list(now) == [version for version in before if version.id != self.removed] else None


Step = PlainStep | VersionStep


@dataclass(slots=True)
class Ledger:
    """The expected state of one client, which alone writes its keys, one request at a time."""

    plain: dict[str, Content | None] = field(default_factory=dict)
    versioned: dict[str, list[Version]] = field(default_factory=dict)
    journal: list[Change] = field(default_factory=list)
    pending: list[Step] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Keys written since their last check."""
    acknowledged: int = 0
    happened: int = 0
    """Changes without a response that had happened."""
    vanished: int = 0
    """Changes without a response that had not happened."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """Kinds of changes without a response."""

    def begin(self, steps: Sequence[Step]) -> None:
        """Record steps that are about to be requested."""
        assert not self.pending, "a client has one request in flight"
        self.pending = list(steps)
        self.touched.update(step.key for step in steps)

    def confirm(self, request_id: str, version: str = "") -> None:
        """Apply the pending steps, which the server acknowledged."""
        self.acknowledged += 1
        for step in self.pending:
            change = replace(step.change, request_id=request_id)
            self._apply(step, replace(change, version=version) if version else change, version)
        self.pending = []

    def refuse(self) -> None:
        """Drop the pending steps, which the server rejected."""
        self.pending = []

    def settle_plain(self, step: PlainStep, *, happened: bool) -> None:
        """Record the outcome of a change without a response."""
        self._settle(step, happened=happened)
        if happened:
            self._apply(step, step.change)

    def settle_version(self, step: VersionStep, outcome: Version | bool) -> None:
        """Record the outcome of a change of versions, with the id of an added one."""
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
            self.versioned[step.key] = [each for each in self.versioned[step.key] if each.id != step.removed]
