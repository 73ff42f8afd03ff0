"""Audit of requests: a record of each with its operation, its times and the bytes sent.

Records are made only while a target subscribes to requests. Otherwise the cost is two attribute reads per request.
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
"""Takes the record of a request once its response was sent, or will never be. Never waits."""


class RequestRecord:
    """The audit record of one request."""

    __slots__ = (
        "_clock",
        "_sink",
        "began",
        "bucket",
        "edge",
        "ended",
        "key",
        "occurred_ms",
        "operation",
        "responded",
        "sent_bytes",
    )

    def __init__(self, sink: RecordSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self.occurred_ms = clock.now_ms()
        self.began = clock.monotonic()
        self.responded = self.began
        """When the response's head was about to be sent."""
        self.ended = self.began
        """When its last byte was written, or sending failed."""
        self.sent_bytes = 0
        """Bytes of the response's body."""
        self.edge = "http"
        self.operation = "Unknown"
        """The protocol, and the operation's name in it."""
        self.bucket = ""
        self.key = ""

    def name(self, edge: str, operation: str, bucket: str = "", key: str = "") -> None:
        """Set protocol, operation and subject."""
        self.edge, self.operation, self.bucket, self.key = edge, operation, bucket, key

    def response_ready(self) -> None:
        """Set the time at which the response was ready."""
        self.responded = self._clock.monotonic()

    def end(self, request: Request, response: Response | None, sent_bytes: int = 0) -> None:
        """Finish the record after the response was sent, completely or in part; None if there is no response."""
        self.ended = self._clock.monotonic()
        self.sent_bytes = sent_bytes
        try:
            self._sink(self, request, response)
        except Exception:
            # An error here must not cost the client its connection.
            log.exception("request audit failed", extra={"request_id": request.request_id})


class RequestRecorder:
    """Attaches records to requests."""

    def __init__(self, sink: RecordSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock

    def start_record(self, request: Request) -> None:
        """Attach a record to a request that has just arrived."""
        request.record = RequestRecord(self._sink, self._clock)
