"""Configured targets, subscriptions, and the state of deliveries that need a retry."""

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
"""Default form of events that a bucket rule matched."""
BY_SUBSCRIPTION: Final = "lakebed"
"""Default form of events that the target's subscription matched."""
OF_REQUESTS: Final = "audit"
"""Default form of request log entries."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class TargetOrigin(StrEnum):
    """Where a target is configured."""

    SETTINGS = "settings"
    API = "api"


@dataclass(frozen=True, slots=True)
class Subscription:
    """The events that a target receives in addition to those of bucket rules."""

    kinds: tuple[str, ...] = ()
    """Event kinds or `AFTER_` names of operations, each with an optional trailing `*`."""
    subject: str = ""
    """Restricts `kinds` to a subject and its children."""
    audit: bool = False
    """Whether it includes the audit trail."""
    requests: bool = False
    """Whether it includes the request log."""
    selections: tuple[EventSelection, ...] = ()

    def matches(self, event: OutboxEvent) -> bool:
        """Whether the subscription includes an event."""
        return any(selection.matches(event) for selection in self.selections)


def parse_subscription(
    kinds: Sequence[str] = (), subject: str = "", *, audit: bool = False, requests: bool = False
) -> Subscription:
    """A subscription of these fields. Raises InvalidInput."""
    selections: list[EventSelection] = []
    if any("\0" in text for text in (*kinds, subject)):
        raise InvalidInput("kinds and subject must not contain NUL", argument="kinds")
    if kinds:
        if len(subject) > MAX_SUBJECT_CHARS:
            raise InvalidInput(f"subject has at most {MAX_SUBJECT_CHARS} characters", argument="subject")
        selections.append(parse_selection(",".join(kinds), subject=subject))
    elif subject:
        raise InvalidInput("subject requires kinds: name at least one", argument="kinds")
    if audit:
        selections.append(AUDIT)
    return Subscription(tuple(kinds), subject, audit, requests, tuple(selections))


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A configured target. After any change its delivery restarts from its cursors."""

    name: str
    type: str
    settings: TargetSettings
    subscription: Subscription = Subscription()
    form: str = ""
    """The form of all its messages; empty for the default form of each source."""
    is_paused: bool = False
    origin: TargetOrigin = TargetOrigin.API

    @property
    def id(self) -> str:
        """`<name>:<type>`, as in bucket rules."""
        return target_id(self.name, self.type)

    @property
    def cursor(self) -> str:
        """The name of its outbox cursor."""
        return cursor_of(self.id)

    def form_for(self, rule: str) -> str:
        """The form of an event that a bucket rule matched, or the subscription if `rule` is empty."""
        return self.form or (BY_RULE if rule else BY_SUBSCRIPTION)

    @property
    def form_of_requests(self) -> str:
        """The form of request log entries."""
        return self.form or OF_REQUESTS


class DeliveryState(StrEnum):
    """The state of an event whose first attempt did not succeed."""

    WAITING = "waiting"
    """Waiting for a retry, or behind a waiting event of its ordering key."""

    DEAD = "dead"
    """A dead letter: out of attempts, or undeliverable."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that waits for a retry, or a dead letter."""

    entry: OutboxEntry
    ordering_key: str
    rule: str
    """The bucket rule that matched it; empty for the target's own subscription."""
    state: DeliveryState
    attempts: int
    due_ms: int
    failure: str
    """The reason of the last failure."""
    changed_ms: int


_CURSOR_PREFIX: Final = "target "


def target_id(name: str, type_: str) -> str:
    """`<name>:<type>`."""
    return f"{name}:{type_}"


def cursor_of(target: str) -> str:
    """The name of a target's outbox cursor."""
    return _CURSOR_PREFIX + target


def target_of(cursor: str) -> str | None:
    """The target of a cursor; None for other cursors."""
    return cursor.removeprefix(_CURSOR_PREFIX) if cursor.startswith(_CURSOR_PREFIX) else None


def target_arn(region: str, target: str) -> str:
    """The target's ARN in notification configurations."""
    return f"arn:lakebed:sqs:{region}:{target}"


def check_name(name: str) -> str:
    """The name, if it is valid. Raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName("a target name has 1 to 64 letters, digits, - and _", argument="name", value=name[:80])
    return name


def check_form(form: str) -> str:
    """The form, if it is valid or empty. Raises InvalidInput."""
    return parse_form(form) if form else form


def delivery_from(row: Row) -> Delivery:
    """Decode a row of the table of deliveries."""
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
