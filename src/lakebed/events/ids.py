"""Event ids: unique across deployments, and cursors into the event log. Pure.

    evt_DEPLOYMENT_SEQUENCE     an event
    req_DEPLOYMENT_SEQUENCE     an entry of the request log

A sequence number is unique only within its deployment, so receivers shared by deployments need the whole id. A reader
resumes after an id, a plain number, or `evt_SEQUENCE`, the format of versions without deployment ids.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput
from lakebed.core.ids import DeploymentId
from lakebed.meta.outbox import FIRST_REQUEST, OutboxEntry

_EVENT: Final = "evt"
_REQUEST: Final = "req"
_ID: Final = re.compile(r"(evt|req)_(?:([a-z2-7]{26})_)?([0-9]{1,19})")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_MAX_SEQ: Final = 2**63 - 1


class EventId(NamedTuple):
    """A parsed id."""

    deployment: DeploymentId | None
    """None in the format without a deployment id."""
    seq: int


def parse_event_id(text: str) -> EventId:
    """Parse the id of an event or of a request log entry. Raises InvalidInput."""
    found = _ID.fullmatch(text)
    if found is None or int(found[3]) > _MAX_SEQ:
        raise InvalidInput("expected an event id, evt_DEPLOYMENT_NUMBER", value=text[:80])
    return EventId(None if found[2] is None else DeploymentId(found[2]), int(found[3]))


class EventIds:
    """The event ids of one deployment."""

    def __init__(self, deployment: DeploymentId) -> None:
        self.deployment = deployment

    def of(self, entry: OutboxEntry) -> str:
        """The id of an entry: the same in every attempt, form and target."""
        return self._format(_REQUEST if entry.seq >= FIRST_REQUEST else _EVENT, entry.seq)

    def cursor(self, seq: int) -> str:
        """The cursor after an event, which need not exist any more."""
        return self._format(_EVENT, seq)

    def parse_cursor(self, text: str, argument: str) -> int:
        """The sequence number that a reader resumes after. Raises InvalidInput.

        Ids of other deployments are rejected: here the same number is a different event.
        """
        if _NUMBER.fullmatch(text) and int(text) <= _MAX_SEQ:
            return int(text)
        found = _ID.fullmatch(text)
        if found is None or found[1] != _EVENT or int(found[3]) > _MAX_SEQ:
            raise InvalidInput(
                f"{argument} must be an integer from 0 to {_MAX_SEQ}, or an event id such as {self.cursor(42)}",
                argument=argument,
                value=text[:80],
            )
        if found[2] not in (None, self.deployment):
            raise InvalidInput(
                f"{argument} is an event id of another deployment: start again from a number (0: the oldest retained"
                f" event). expected=evt_{self.deployment}_NUMBER found={text}",
                argument=argument,
                value=text,
            )
        return int(found[3])

    def _format(self, prefix: str, seq: int) -> str:
        return f"{prefix}_{self.deployment}_{seq}"
