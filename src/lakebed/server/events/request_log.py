"""Wires the log of requests: who attends them, what is told of them, and how that comes to be written."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.own_messages import HEADER, OwnMessages
from lakebed.events.delivery import RequestLog
from lakebed.events.interests import Interests
from lakebed.events.requests import event_of_request
from lakebed.events.write_behind import WriteBehind
from lakebed.governance.vault import MasterKeys
from lakebed.meta.seam import MetaStore
from lakebed.wire.disclosure import entry_of
from lakebed.wire.http.message import Request, Response
from lakebed.wire.http.witness import Hear, Testimony, Witness

FLUSH_SECONDS: Final = 0.2

_PURPOSE: Final = "messages of this server"
_HEADER: Final = HEADER.lower()


def own_messages(master: MasterKeys) -> OwnMessages:
    """How servers with these master keys know messages of theirs."""
    return OwnMessages(master.derive(_PURPOSE))


@dataclass(frozen=True, slots=True)
class Requests:
    """What the edges and the worker need of it."""

    witness: Witness
    behind: WriteBehind
    interests: Interests
    log: RequestLog
    stated: Sequence[str]
    """The targets of the settings that are sent requests."""

    async def begin(self) -> None:
        """See to it that no request is missed: to be done before the first comes."""
        await self.log.begin(self.stated)
        await self.interests.look_for_requests()


def wire_requests(
    meta: MetaStore,
    log: RequestLog,
    clock: Clock,
    master: MasterKeys,
    interests: Interests,
    stated: Sequence[str],
    dropped: Callable[[int], None],
) -> Requests:
    """All of it, for this process."""
    behind = WriteBehind(meta, log.log, "requests", flush_seconds=FLUSH_SECONDS, dropped=dropped)
    hear = noted_in(behind, own_messages(master), socket.gethostname())
    return Requests(Witness(hear, clock), behind, interests, log, stated)


def noted_in(behind: WriteBehind, own: OwnMessages, node: str) -> Hear:
    """Has requests written down, but for messages about requests that this server sent to itself in vain."""

    def hear(testimony: Testimony, request: Request, response: Response | None) -> None:
        if _is_own(own, request, response):
            return
        if not behind.has_room:
            behind.miss()
            return
        behind.add(event_of_request(entry_of(testimony, request, response, node), testimony.occurred_ms))

    return hear


def _is_own(own: OwnMessages, request: Request, response: Response | None) -> bool:
    """Whether it is a message of ours that came to us, and was refused.

    Only then: receivers have seen proofs, and must not hide with one what they do here.
    """
    proof = request.headers.get(_HEADER)
    if proof is None or response is None or response.status < HTTPStatus.BAD_REQUEST:
        return False
    return own.are_proven_by(proof)
