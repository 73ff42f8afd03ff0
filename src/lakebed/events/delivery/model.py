"""Targets as they are set up, and what became of an event that could not be delivered at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core.errors import InvalidInput, InvalidName
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from lakebed.meta.seam import Row

from ..forms import parse_form
from ..log import AUDIT
from ..selection import EventSelection, parse_selection
from ..targets.seam import TargetSettings

MAX_SUBJECT_CHARS: Final = 2048

BY_RULE: Final = "s3"
BY_SUBSCRIPTION: Final = "lakebed"
OF_REQUESTS: Final = "audit"
"""The forms of what a target is sent because of a bucket's rule and because of its own wish, and of requests, if it
names none."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class TargetOrigin(StrEnum):
    """Where a target was named."""

    SETTINGS = "settings"
    API = "api"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a target is sent besides what bucket rules have sent to it."""

    kinds: tuple[str, ...] = ()
    """Names of kinds, or `AFTER_` names of operations, or beginnings of either followed by `*`."""
    subject: str = ""
    """Of those kinds, what is about this, or in it."""
    audit: bool = False
    """What the audit trail is made of, too."""
    requests: bool = False
    """An entry of an audit log for every request, too."""
    selections: tuple[EventSelection, ...] = ()

    def matches(self, event: OutboxEvent) -> bool:
        """Whether an event is asked for."""
        return any(selection.matches(event) for selection in self.selections)


def parse_subscription(
    kinds: Sequence[str] = (), subject: str = "", *, audit: bool = False, requests: bool = False
) -> Subscription:
    """A wish of these words. Raises InvalidInput."""
    selections: list[EventSelection] = []
    if any("\0" in word for word in (*kinds, subject)):
        raise InvalidInput("a NUL is in no event's kind or subject", argument="kinds")
    if kinds:
        if len(subject) > MAX_SUBJECT_CHARS:
            raise InvalidInput(f"subject has at most {MAX_SUBJECT_CHARS} characters", argument="subject")
        selections.append(parse_selection(",".join(kinds), subject=subject))
    elif subject:
        raise InvalidInput("subject is for the kinds of events that are asked for: name some", argument="kinds")
    if audit:
        selections.append(AUDIT)
    return Subscription(tuple(kinds), subject, audit, requests, tuple(selections))


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A target as it is set up. One that differs in anything is served anew from where it stands."""

    name: str
    type: str
    settings: TargetSettings
    subscription: Subscription = Subscription()
    form: str = ""
    """Of everything that it is sent; empty for the usual one of each."""
    is_paused: bool = False
    origin: TargetOrigin = TargetOrigin.API

    @property
    def id(self) -> str:
        """`<name>:<type>`, as bucket rules name it."""
        return target_id(self.name, self.type)

    @property
    def cursor(self) -> str:
        """The name of its place in the outbox."""
        return cursor_of(self.id)

    def form_for(self, rule: str) -> str:
        """The form of an event that a rule asked for, or the target itself if that is empty."""
        return self.form or (BY_RULE if rule else BY_SUBSCRIPTION)

    @property
    def form_of_requests(self) -> str:
        """The form of requests."""
        return self.form or OF_REQUESTS


class DeliveryState(StrEnum):
    """Where an event is that was not delivered at once."""

    WAITING = "waiting"
    """To be tried again, or behind one of its lane that is."""

    DEAD = "dead"
    """Given up: after its last attempt, or because the target will never take it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that was not delivered at once."""

    entry: OutboxEntry
    ordering_key: str
    rule: str
    """The bucket rule that asked for it; empty if the target itself did."""
    state: DeliveryState
    attempts: int
    due_ms: int
    failure: str
    """Why the last attempt failed."""
    changed_ms: int


_CURSORS: Final = "target "


def target_id(name: str, type_: str) -> str:
    """How a target is named among all."""
    return f"{name}:{type_}"


def cursor_of(target: str) -> str:
    """The name of a target's place in the outbox."""
    return _CURSORS + target


def target_of(cursor: str) -> str | None:
    """Whose place it is; None for a cursor of something else."""
    return cursor.removeprefix(_CURSORS) if cursor.startswith(_CURSORS) else None


def target_arn(region: str, target: str) -> str:
    """How configurations of buckets name a target."""
    return f"arn:lakebed:sqs:{region}:{target}"


def check_name(name: str) -> str:
    """The name, if a target can have it. Raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName("the name of a target has 1 to 64 letters, digits, - and _", argument="name", value=name[:80])
    return name


def check_form(form: str) -> str:
    """The form, if there is such a one, or none is named. Raises InvalidInput."""
    return parse_form(form) if form else form


def delivery_from(row: Row) -> Delivery:
    """A delivery from its row."""
    (
        seq,
        ordering_key,
        kind,
        subject,
        payload,
        occurred_ms,
        operation,
        rule,
        state,
        attempts,
        due_ms,
        failure,
        changed_ms,
    ) = row
    event = OutboxEvent(kind, subject, payload, occurred_ms, operation)
    return Delivery(
        OutboxEntry(seq, event), ordering_key, rule, DeliveryState(state), attempts, due_ms, failure, changed_ms
    )
