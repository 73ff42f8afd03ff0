"""Metrics of the wire protocols, S3 Select, event delivery and periodic jobs, and the access log."""

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
    """The series of one operation and status."""

    requests: Counter
    seconds: Histogram


class ProtocolInstruments:
    """Request metrics of one wire protocol."""

    def __init__(self, metrics: Metrics, protocol: str, title: str) -> None:
        """`protocol` is part of the metric names, `title` of their help texts."""
        self._requests = metrics.counter(
            f"lakebed_{protocol}_requests_total",
            f"{title} requests by operation and HTTP status.",
            ("operation", "status"),
        )
        self._seconds = metrics.histogram(
            f"lakebed_{protocol}_request_duration_seconds",
            f"Duration of {title} requests until the response head.",
            ("operation",),
        )
        self._received = metrics.counter(
            f"lakebed_{protocol}_received_bytes_total", f"Bytes of {title} request bodies received.", ("operation",)
        )
        self._sent = metrics.counter(
            f"lakebed_{protocol}_sent_bytes_total", f"Bytes of {title} response bodies sent.", ("operation",)
        )
        self._known: dict[tuple[str, int], _Series] = {}

    def observe(self, operation: str, request: Request, response: Response, seconds: float) -> None:
        """Count one response."""
        series = self._known.get((operation, response.status)) or self._first_use(operation, response.status)
        series.requests.add()
        series.seconds.observe(seconds)
        if request.body.received:
            self._received.of(operation).add(request.body.received)
        length = response_bytes(request, response)
        if length:
            self._sent.of(operation).add(length)

    def _first_use(self, operation: str, status: int) -> _Series:
        series = _Series(self._requests.of(operation, str(status)), self._seconds.of(operation))
        # Never evicted: operations and statuses are defined here, and few.
        self._known[operation, status] = series
        return series


class SelectInstruments:
    """Metrics of S3 Select."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "lakebed_select_requests_total",
            "S3 Select requests that ended, by outcome: done, cancelled or an error code.",
            ("outcome",),
        )
        self._scanned = metrics.counter("lakebed_select_scanned_bytes_total", "Bytes that S3 Select read.").of()
        self._processed = metrics.counter(
            "lakebed_select_processed_bytes_total", "Bytes that S3 Select processed after decompression."
        ).of()
        self._returned = metrics.counter("lakebed_select_returned_bytes_total", "Bytes that S3 Select returned.").of()

    def ended(self, outcome: str, stats: QueryStats) -> None:
        """Count one request."""
        self._requests.of(outcome).add()
        self._scanned.add(stats.scanned)
        self._processed.add(stats.processed)
        self._returned.add(stats.returned)


class DeliveryInstruments:
    """Metrics of event delivery, by name and type of the target. An `Observer` of deliveries."""

    def __init__(self, metrics: Metrics) -> None:
        labels = ("target", "type")
        self.running = metrics.gauge(
            "lakebed_event_delivery_running", "Whether the event delivery process is running."
        ).of()
        self._sent = metrics.counter("lakebed_target_delivered_events_total", "Events delivered to a target.", labels)
        self._failed = metrics.counter(
            "lakebed_target_failed_attempts_total", "Delivery attempts to a target that failed.", labels
        )
        self._given_up = metrics.counter(
            "lakebed_target_dead_lettered_events_total", "Events of a target that became dead letters.", labels
        )
        self._skipped = metrics.counter(
            "lakebed_target_skipped_events_total", "Events that a target does not subscribe to.", labels
        )
        self._lost = metrics.counter(
            "lakebed_target_dropped_requests_total",
            "Request records dropped because a target was too far behind.",
            labels,
        )
        self._behind = metrics.gauge(
            "lakebed_target_lag_events", "Events in the outbox that a target has not processed yet.", labels
        )
        self._waiting = metrics.gauge("lakebed_target_retrying_events", "Events of a target awaiting a retry.", labels)
        self._dead = metrics.gauge("lakebed_target_dead_letters", "Dead letters of a target.", labels)
        self._under_way = metrics.gauge("lakebed_target_in_flight_events", "Events being sent to a target.", labels)

    def count(self, target: str, tally: DeliveryCounts) -> None:
        """Add counts of a target."""
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
        """Set the backlog of a target."""
        labels = _name_and_type(target)
        self._behind.of(*labels).set(standing.behind)
        self._waiting.of(*labels).set(standing.waiting)
        self._dead.of(*labels).set(standing.dead)
        self._under_way.of(*labels).set(standing.in_flight)


class Instruments:
    """All metrics of a worker."""

    def __init__(self, metrics: Metrics) -> None:
        self.s3 = ProtocolInstruments(metrics, "s3", "S3")
        self.catalog = ProtocolInstruments(metrics, "catalog", "catalog")
        self.admin = ProtocolInstruments(metrics, "admin", "administration")
        self.management = ProtocolInstruments(metrics, "management", "management")
        self.oauth = ProtocolInstruments(metrics, "oauth", "token")
        self.selects = SelectInstruments(metrics)
        self.connections = metrics.gauge("lakebed_connections", "Open HTTP connections.").of()
        self.expired = metrics.counter(
            "lakebed_lifecycle_actions_total", "Objects, versions and uploads removed by lifecycle rules.", ("kind",)
        )
        self.swept = metrics.counter(
            "lakebed_sweep_removals_total", "Blobs, uploads and events removed by garbage collection.", ("kind",)
        )
        self.missing_blobs = metrics.counter(
            "lakebed_missing_blob_reads_total", "Reads of stored bytes that the object store does not have."
        ).of()
        # Set by other processes, and declared here because any worker may render them.
        DeliveryInstruments(metrics)
        StreamInstruments(metrics)
        self.unrecorded = metrics.counter(
            "lakebed_unrecorded_requests_total", "Requests missing in the request log because its buffer was full."
        ).of()
        self.dropped_tables = metrics.counter(
            "lakebed_catalog_dropped_tables_total",
            "Dropped tables whose retention ended or that were purged.",
            ("kind",),
        )
        self.removed_rows = metrics.counter(
            "lakebed_catalog_removed_rows_total",
            "Expired rows of the catalog removed from the metadata store.",
            ("kind",),
        )
        self.maintenance_jobs = metrics.counter(
            "lakebed_maintenance_jobs_total", "Maintenance jobs that the server ran, by outcome.", ("outcome",)
        )
        self.maintenance_files = metrics.counter(
            "lakebed_maintenance_files_total", "Files that maintenance deleted, quarantined or purged.", ("action",)
        )
        self.planned_tables = metrics.counter(
            "lakebed_maintenance_planned_tables_total", "Tables that the maintenance scheduler planned."
        ).of()
        self.planned_tasks = metrics.counter(
            "lakebed_maintenance_planned_tasks_total", "Tasks that the maintenance scheduler queued."
        ).of()
        self.withdrawn_tasks = metrics.counter(
            "lakebed_maintenance_withdrawn_tasks_total", "Tasks that the maintenance scheduler withdrew."
        ).of()


def _name_and_type(target: str) -> tuple[str, str]:
    name, _, type_ = target.partition(":")
    return name, type_


def response_bytes(request: Request, response: Response) -> int:
    """The length of the response body, as far as it is known before it is sent."""
    if request.method == "HEAD":
        return 0
    return len(response.body) if response.length is None else response.length


def access_trace(tally: AccessCounter) -> Trace:
    """Records accesses with vended credentials."""

    def trace(operation: str, request: Request, response: Response, bucket: str, key: str) -> None:
        session = request.delegated
        if session is None:
            return
        tally.count(
            AccessGroup(bucket, key, session.delegation, operation, response.status),
            CredentialRecipient(request.principal, session.delegated_for, session.obtained_by),
            received_bytes=request.body.received,
            sent_bytes=response_bytes(request, response),
            request_id=request.request_id,
        )

    return trace


def with_access_log(application: Application, access: AccessLog, clock: Clock) -> Application:
    """The application, with an access log line for each response."""

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
            sent_bytes=response_bytes(request, response),
            seconds=clock.monotonic() - started,
            delegation="" if request.delegated is None else request.delegated.delegation,
        )
        return response

    return logged
