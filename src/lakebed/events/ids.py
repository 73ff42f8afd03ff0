"""Event ids: one name for an event in all deployments, and a cursor into the event log. Pure.

    evt_DEPLOYMENT_SEQUENCE     an event
    req_DEPLOYMENT_SEQUENCE     an entry of the request log

A sequence number is unique in one deployment only: receivers that several deployments share need the whole id. A reader
resumes behind an id, behind a bare number, or behind `evt_SEQUENCE`, the form of versions before deployments had ids.
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
    """An id that was read."""

    deployment: DeploymentId | None
    """None in ids of versions before deployments had ids."""
    seq: int


def parse_event_id(text: str) -> EventId:
    """The parts of an id of an event or a request. Raises InvalidInput."""
    found = _ID.fullmatch(text)
    if found is None or int(found[3]) > _MAX_SEQ:
        raise InvalidInput("expected an event id, evt_DEPLOYMENT_NUMBER", value=text[:80])
    return EventId(None if found[2] is None else DeploymentId(found[2]), int(found[3]))


class EventIds:
    """The event ids of one deployment."""

    def __init__(self, deployment: DeploymentId) -> None:
        self.deployment = deployment

    def of(self, entry: OutboxEntry) -> str:
        """The id of an entry: the same in every attempt, in every form and for every target."""
        return self._written(_REQUEST if entry.seq >= FIRST_REQUEST else _EVENT, entry.seq)

    def cursor(self, seq: int) -> str:
        """The cursor behind that event, whether it is still kept or not."""
        return self._written(_EVENT, seq)

    def parse_cursor(self, text: str, argument: str) -> int:
        """The number of the event that a reader resumes behind. Raises InvalidInput.

        An id of another deployment is refused: the same number is another event here.
        """
        if _NUMBER.fullmatch(text) and int(text) <= _MAX_SEQ:
            return int(text)
        found = _ID.fullmatch(text)
        if found is None or found[1] != _EVENT or int(found[3]) > _MAX_SEQ:
            raise InvalidInput(
                f"{argument} is a whole number from 0 to {_MAX_SEQ}, or an event id such as {self.cursor(42)}",
                argument=argument,
                value=text[:80],
            )
        if found[2] not in (None, self.deployment):
            raise InvalidInput(
                f"{argument} is an event id of another deployment: begin anew, with a number (0: the oldest event that"
                f" is kept). expected=evt_{self.deployment}_NUMBER found={text}",
                argument=argument,
                value=text,
            )
        return int(found[3])

    def _written(self, prefix: str, seq: int) -> str:
        return f"{prefix}_{self.deployment}_{seq}"
