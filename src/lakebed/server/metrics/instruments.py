"""What the server counts and tells of its own work."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.core.clock import Clock
from lakebed.events.delivery import DeliveryCounts, TargetBacklog
from lakebed.governance.delegation.delegated_accesses import (
    AccessCounter,
    AccessGroup,
    CredentialRecipient,
)
from lakebed.select.model import QueryStats
from lakebed.wire.http.message import Request, Response
from lakebed.wire.http.protocol import Application
from lakebed.wire.s3.app import Trace

from ..logs import AccessLog
from . import Counter, Histogram, Metrics
from .stream_instruments import StreamInstruments


class _Series(NamedTuple):
    """What every answer of an operation with one status is counted in."""

    requests: Counter
    seconds: Histogram


class EdgeInstruments:
    """The metric families of one edge."""

    def __init__(self, metrics: Metrics, edge: str, title: str) -> None:
        """`edge` is part of the families' names, `title` of their descriptions."""
        self._requests = metrics.counter(
            f"lakebed_{edge}_requests_total",
            f"{title} requests answered, by operation and status.",
            ("operation", "status"),
        )
        self._seconds = metrics.histogram(
            f"lakebed_{edge}_request_seconds", "Time to make an answer, without sending its body.", ("operation",)
        )
        self._received = metrics.counter(
            f"lakebed_{edge}_received_bytes_total", "Bytes of request bodies.", ("operation",)
        )
        self._sent = metrics.counter(f"lakebed_{edge}_sent_bytes_total", "Bytes of response bodies.", ("operation",))
        self._known: dict[tuple[str, int], _Series] = {}

    def observe(self, operation: str, request: Request, response: Response, seconds: float) -> None:
        """Count one answer."""
        series = self._known.get((operation, response.status)) or self._first_use(operation, response.status)
        series.requests.add()
        series.seconds.observe(seconds)
        if request.body.received:
            self._received.of(operation).add(request.body.received)
        length = promised_bytes(request, response)
        if length:
            self._sent.of(operation).add(length)

    def _first_use(self, operation: str, status: int) -> _Series:
        series = _Series(self._requests.of(operation, str(status)), self._seconds.of(operation))
        # Kept for good: operations and statuses are of our making, and few.
        self._known[operation, status] = series
        return series


class SelectInstruments:
    """What became of selects, and what they took."""

    def __init__(self, metrics: Metrics) -> None:
        self._ended = metrics.counter(
            "lakebed_selects_total",
            "Selects that ended: done, cancelled, or by the code of what was wrong.",
            ("outcome",),
        )
        self._bytes = metrics.counter(
            "lakebed_select_bytes_total", "Bytes that selects scanned, processed and returned.", ("kind",)
        )

    def ended(self, outcome: str, counts: QueryStats) -> None:
        """Count one."""
        self._ended.of(outcome).add()
        for kind, size in (
            ("scanned", counts.scanned),
            ("processed", counts.processed),
            ("returned", counts.returned),
        ):
            self._bytes.of(kind).add(size)


class DeliveryInstruments:
    """What is told of targets, each by its name and type. An `Observer` of deliveries."""

    def __init__(self, metrics: Metrics) -> None:
        labels = ("target", "type")
        self.running = metrics.gauge(
            "lakebed_deliveries_running", "Whether the process that delivers events is there."
        ).of()
        self._sent = metrics.counter("lakebed_target_sent_total", "Events delivered.", labels)
        self._failed = metrics.counter("lakebed_target_failed_total", "Attempts to deliver that failed.", labels)
        self._given_up = metrics.counter("lakebed_target_given_up_total", "Events that became dead letters.", labels)
        self._skipped = metrics.counter("lakebed_target_skipped_total", "Events passed over: not asked for.", labels)
        self._lost = metrics.counter(
            "lakebed_target_lost_total", "Requests that a target was too far behind to be sent.", labels
        )
        self._behind = metrics.gauge("lakebed_target_behind", "Events not gone through yet, asked for or not.", labels)
        self._waiting = metrics.gauge("lakebed_target_waiting", "Events that wait to be tried again.", labels)
        self._dead = metrics.gauge("lakebed_target_dead", "Dead letters.", labels)
        self._under_way = metrics.gauge("lakebed_target_sending", "Events that are being sent.", labels)

    def count(self, target: str, tally: DeliveryCounts) -> None:
        """Something was done for a target."""
        labels = _name_and_type(target)
        for family, count in (
            (self._sent, tally.delivered),
            (self._failed, tally.failed),
            (self._given_up, tally.dead_lettered),
            (self._skipped, tally.skipped),
            (self._lost, tally.lost),
        ):
            if count:
                family.of(*labels).add(count)

    def measure(self, target: str, standing: TargetBacklog) -> None:
        """How a target stands now."""
        labels = _name_and_type(target)
        self._behind.of(*labels).set(standing.behind)
        self._waiting.of(*labels).set(standing.waiting)
        self._dead.of(*labels).set(standing.dead)
        self._under_way.of(*labels).set(standing.in_flight)


class Instruments:
    """What the server counts: the edges' answers, and its own chores."""

    def __init__(self, metrics: Metrics) -> None:
        self.s3 = EdgeInstruments(metrics, "s3", "S3")
        self.catalog = EdgeInstruments(metrics, "catalog", "Catalog")
        self.admin = EdgeInstruments(metrics, "admin", "Administration")
        self.management = EdgeInstruments(metrics, "management", "Management")
        self.oauth = EdgeInstruments(metrics, "oauth", "Token")
        self.selects = SelectInstruments(metrics)
        self.connections = metrics.gauge("lakebed_connections", "Open connections.").of()
        self.expired = metrics.counter("lakebed_lifecycle_total", "What lifecycle rules removed, by kind.", ("kind",))
        self.swept = metrics.counter("lakebed_swept_total", "What sweeps removed, by kind.", ("kind",))
        self.missing_blobs = metrics.counter(
            "lakebed_missing_blob_reads_total", "Reads of stored bytes that the object store does not have."
        ).of()
        # Another process counts these. Here they are declared: what nobody knows of here is not told by this process.
        DeliveryInstruments(metrics)
        StreamInstruments(metrics)
        self.unrecorded = metrics.counter(
            "lakebed_requests_unrecorded_total", "Requests that targets are not told of: too many waited."
        ).of()
        self.tended = metrics.counter(
            "lakebed_tables_tended_total", "What the catalog's chores did and removed, by kind.", ("kind",)
        )


def _name_and_type(target: str) -> tuple[str, str]:
    name, _, type_ = target.partition(":")
    return name, type_


def promised_bytes(request: Request, response: Response) -> int:
    """How long the answer's body is, as far as that is known before it is sent."""
    if request.method == "HEAD":
        return 0
    return len(response.body) if response.length is None else response.length


def access_trace(tally: AccessCounter) -> Trace:
    """Notes what is done with keys that the catalog handed out."""

    def trace(operation: str, request: Request, response: Response, bucket: str, key: str) -> None:
        session = request.delegated
        if session is None:
            return
        tally.note(
            AccessGroup(bucket, key, session.delegation, operation, response.status),
            CredentialRecipient(request.principal, session.delegated_for, session.obtained_by),
            received_bytes=request.body.received,
            sent_bytes=promised_bytes(request, response),
            request_id=request.request_id,
        )

    return trace


def with_access_log(application: Application, access: AccessLog, clock: Clock) -> Application:
    """The application, with a line for each answer that it makes."""

    async def logged(request: Request) -> Response:
        started = clock.monotonic()
        response = await application(request)
        access.record(
            request_id=request.request_id,
            remote=request.peer,
            principal=request.principal or "-",
            method=request.method,
            target=f"{request.raw_path}?{request.raw_query}" if request.raw_query else request.raw_path,
            status=response.status,
            received_bytes=request.body.received,
            sent_bytes=promised_bytes(request, response),
            seconds=clock.monotonic() - started,
            delegation="" if request.delegated is None else request.delegated.delegation,
        )
        return response

    return logged
