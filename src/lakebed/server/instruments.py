"""What the server counts of its own work."""

from __future__ import annotations

from lakebed.wire.http.message import Request, Response

from .metrics import Metrics


class Instruments:
    """The metric families of the edges."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "lakebed_s3_requests_total", "S3 requests answered, by operation and status.", ("operation", "status")
        )
        self._seconds = metrics.histogram(
            "lakebed_s3_request_seconds", "Time to make an answer, without sending its body.", ("operation",)
        )
        self._received = metrics.counter("lakebed_s3_received_bytes_total", "Bytes of request bodies.", ("operation",))
        self._sent = metrics.counter("lakebed_s3_sent_bytes_total", "Bytes of response bodies.", ("operation",))
        self.connections = metrics.gauge("lakebed_connections", "Open connections.").of()
        self.expired = metrics.counter("lakebed_lifecycle_total", "What lifecycle rules removed, by kind.", ("kind",))
        self.swept = metrics.counter("lakebed_swept_total", "What sweeps removed, by kind.", ("kind",))

    def observe(self, operation: str, request: Request, response: Response, seconds: float) -> None:
        """Count one answer."""
        self._requests.of(operation, str(response.status)).add()
        self._seconds.of(operation).observe(seconds)
        if request.body.received:
            self._received.of(operation).add(request.body.received)
        length = len(response.body) if response.length is None else response.length
        if length and request.method != "HEAD":
            self._sent.of(operation).add(length)
