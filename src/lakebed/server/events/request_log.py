"""Wires the request log: records of requests, redacted and written to the targets that subscribe to them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.loop_guard import HEADER, LoopGuard
from lakebed.events.delivery import RequestLog
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.events.requests import event_of_request
from lakebed.events.write_behind import WriteBehind
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.meta.seam import MetaStore
from lakebed.wire.audit.redaction import request_entry
from lakebed.wire.http.message import Request, Response
from lakebed.wire.http.request_audit import RecordSink, RequestRecord, RequestRecorder

FLUSH_SECONDS: Final = 0.2

_PURPOSE: Final = "messages of this server"
_HEADER: Final = HEADER.lower()


def own_messages(master: MasterKeys) -> LoopGuard:
    """How servers with these master keys recognize their own messages."""
    return LoopGuard(master.derive(_PURPOSE))


@dataclass(frozen=True, slots=True)
class RequestAudit:
    """The request log of a process."""

    recorder: RequestRecorder
    behind: WriteBehind
    event_listeners: ListenerRegistry
    log: RequestLog
    configured: Sequence[str]
    """The targets in the settings that subscribe to requests."""

    def record(self, request: Request) -> None:
        """Record a request if a target subscribes to requests."""
        if self.event_listeners.has_request_subscribers:
            self.recorder.start_record(request)

    async def begin(self) -> None:
        """Find out whether any target subscribes to requests, before the first request arrives."""
        await self.log.begin(self.configured)
        await self.event_listeners.refresh_request_subscribers()


def wire_request_audit(
    meta: MetaStore,
    log: RequestLog,
    clock: Clock,
    master: MasterKeys,
    event_listeners: ListenerRegistry,
    configured: Sequence[str],
    dropped: Callable[[int], None],
) -> RequestAudit:
    """The request log of this process."""
    behind = WriteBehind(meta, log.log, "requests", flush_seconds=FLUSH_SECONDS, on_drop=dropped)
    sink = record_sink(behind, own_messages(master), socket.gethostname())
    return RequestAudit(RequestRecorder(sink, clock), behind, event_listeners, log, configured)


def record_sink(behind: WriteBehind, own: LoopGuard, node: str) -> RecordSink:
    """Writes records of requests, except for the server's own messages about requests that it refused itself."""

    def write(record: RequestRecord, request: Request, response: Response | None) -> None:
        if _is_own(own, request, response):
            return
        if not behind.has_room:
            behind.drop()
            return
        behind.add(event_of_request(request_entry(record, request, response, node), record.occurred_ms))

    return write


def _is_own(own: LoopGuard, request: Request, response: Response | None) -> bool:
    """Whether the request is a message of this deployment, and was refused.

    Only refused ones: receivers have seen proofs, and must not hide their own requests with one.
    """
    proof = request.headers.get(_HEADER)
    if proof is None or response is None or response.status < HTTPStatus.BAD_REQUEST:
        return False
    return own.recognizes(proof)
