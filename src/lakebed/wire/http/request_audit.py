"""The witness: notes of a request when it came, who asked for what, and when which answer was on its way and sent.

Only while somebody is sent requests. Otherwise a request costs a look at one attribute, and its answer another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakebed.core.clock import Clock

if TYPE_CHECKING:
    from .message import Request, Response

log = logging.getLogger("lakebed.http")

RecordSink = Callable[["RequestRecord", "Request", "Response | None"], None]
"""Told of every request that was attended, once its answer was sent, or nobody will answer it. Never waits."""


class RequestRecord:
    """What is noted of one request."""

    __slots__ = (
        "_clock",
        "_hear",
        "answered",
        "began",
        "bucket",
        "edge",
        "ended",
        "key",
        "occurred_ms",
        "operation",
        "sent_bytes",
    )

    def __init__(self, hear: RecordSink, clock: Clock) -> None:
        self._hear = hear
        self._clock = clock
        self.occurred_ms = clock.now_ms()
        self.began = clock.monotonic()
        self.answered = self.began
        """When the answer's head was about to be sent."""
        self.ended = self.began
        """When the last of it was written, or given up."""
        self.sent_bytes = 0
        """Of the answer's body."""
        self.edge = "http"
        self.operation = "Unknown"
        """Which protocol it came by, and what that calls what was asked for."""
        self.bucket = ""
        self.key = ""

    def name(self, edge: str, operation: str, bucket: str = "", key: str = "") -> None:
        """An edge knows what was asked for."""
        self.edge, self.operation, self.bucket, self.key = edge, operation, bucket, key

    def answer(self) -> None:
        """There is an answer."""
        self.answered = self._clock.monotonic()

    def end(self, request: Request, response: Response | None, sent_bytes: int = 0) -> None:
        """It was sent, as far as the client took it; None if there will be none."""
        self.ended = self._clock.monotonic()
        self.sent_bytes = sent_bytes
        try:
            self._hear(self, request, response)
        except Exception:
            # A mistake of ours must not cost the client its connection.
            log.exception("a request could not be noted", extra={"request_id": request.request_id})


class RequestRecorder:
    """Attends requests."""

    def __init__(self, hear: RecordSink, clock: Clock) -> None:
        self._hear = hear
        self._clock = clock

    def attend(self, request: Request) -> None:
        """Note what becomes of a request that has just come."""
        request.testimony = RequestRecord(self._hear, self._clock)
