"""Metrics of streams: calls, stored objects, traffic and lake tiering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.streams.lake.schedule import TieringState

from .registry import Counter, GaugeFamily, Histogram, Metrics

if TYPE_CHECKING:
    # Every process has instruments; what the inventory imports needs the extra `streams`.
    from lakebed.streams.admin.inventory import StreamInventory, TableInventory
    from lakebed.streams.traffic import TableTraffic
    from lakebed.wire.fluss.transport.call_counts import CallCount

MAX_TABLES: Final = 400
"""Table names in labels, over the lifetime of a server: all series of so many tables fit the registry."""
_OK: Final = "ok"
_FAILED: Final = "failed"
_Sample = tuple[GaugeFamily, tuple[str, ...], float]
"""A gauge, its labels and its value."""


class _Series(NamedTuple):
    """The series of one call and outcome."""

    requests: Counter
    seconds: Histogram


class StreamInstruments:
    """The metric families of streams."""

    def __init__(self, metrics: Metrics) -> None:
        self._calls = _Calls(metrics)
        self._lake = _LakeTables(metrics)
        self._traffic = _Traffic(metrics)
        self.connections = metrics.gauge("lakebed_streams_connections", "Open client connections.").of()
        self._leader = metrics.gauge("lakebed_streams_leader", "Whether this server is the stream leader.").of()
        self._objects = metrics.gauge(
            "lakebed_streams_objects",
            "Number of stream tables, partitions, buckets, log segments, writers and KV snapshots, by kind.",
            ("kind",),
        )
        self._records = metrics.gauge("lakebed_streams_records", "Records that can be read from open logs.").of()
        self._pending = metrics.gauge(
            "lakebed_streams_pending_records", "Records of open logs that are not yet tiered into the lake."
        ).of()
        self._stored = metrics.gauge(
            "lakebed_streams_stored_bytes",
            "Bytes of local logs, remote logs, KV indexes and KV snapshots, by kind.",
            ("kind",),
        )
        self._uploaded_segments = metrics.counter(
            "lakebed_streams_uploaded_segments_total", "Log segments uploaded to the object store."
        ).of()
        self._uploaded_bytes = metrics.counter(
            "lakebed_streams_uploaded_bytes_total", "Bytes of log segments uploaded to the object store."
        ).of()
        self._upload_failures = metrics.counter(
            "lakebed_streams_upload_failures_total", "Failed uploads of logs to the object store."
        ).of()
        self._flushes = metrics.histogram(
            "lakebed_streams_flush_seconds", "Time to flush a group of appends, or a KV index, to disk.", ("kind",)
        )
        self._table_records = metrics.gauge(
            "lakebed_streams_table_records", "Records that can be read from the open logs of a table.", ("table",)
        )
        self._table_written = metrics.gauge(
            "lakebed_streams_table_written_records", "Records ever written to the open logs of a table.", ("table",)
        )
        self._table_pending = metrics.gauge(
            "lakebed_streams_table_pending_records",
            "Records of the open logs of a table that are not yet tiered into the lake.",
            ("table",),
        )
        self._table_stored = metrics.gauge(
            "lakebed_streams_table_stored_bytes",
            "Bytes of a table's local logs, remote logs and KV indexes, by kind.",
            ("table", "kind"),
        )
        self._names: set[str] = set()
        self._set: set[tuple[GaugeFamily, tuple[str, ...]]] = set()

    def observe(self, call: str, outcome: str, seconds: float) -> None:
        """Count one response."""
        self._calls.observe(call, outcome, seconds)

    def report_calls(self, counts: Iterable[tuple[str, CallCount]]) -> None:
        """Add the counts of calls to the metrics, and reset them."""
        for call, count in counts:
            self._calls.report(call, count)

    def report(self, inventory: StreamInventory, *, is_leader: bool = True) -> None:
        """Set the metrics from an inventory."""
        self._leader.set(is_leader)
        health = inventory.health
        for kind, count in (
            ("tables", inventory.tables),
            ("kv_tables", inventory.kv_tables),
            ("partitions", inventory.partitions),
            ("buckets", health.buckets),
            ("open_buckets", inventory.open_buckets),
            ("offline_buckets", health.buckets - health.active),
            ("not_uploaded_buckets", health.active - health.in_sync),
            ("segments", inventory.segments),
            ("remote_segments", inventory.remote_segments),
            ("writers", inventory.writers),
            ("kv_snapshots", inventory.kv.snapshots),
            ("kv_snapshot_leases", inventory.leases),
            ("leased_kv_snapshots", inventory.leased_snapshots),
        ):
            self._objects.of(kind).set(count)
        self._records.set(inventory.records)
        self._pending.set(inventory.pending_records)
        for kind, size in (
            ("log", inventory.log_bytes),
            ("remote_log", inventory.remote_bytes),
            ("kv_index", sum(inventory.kv.index_bytes.values())),
            ("kv_snapshots", inventory.kv.snapshot_bytes),
        ):
            self._stored.of(kind).set(size)
        self._uploaded_segments.add(inventory.uploads.segments)
        self._uploaded_bytes.add(inventory.uploads.size_bytes)
        self._upload_failures.add(inventory.uploads.failures)
        for kind, flushes in inventory.flush_seconds.items():
            of_kind = self._flushes.of(kind)
            for seconds in flushes:
                of_kind.observe(seconds)
        self._lake.report(inventory)
        named = [count for count in inventory.by_table if self._has_name(count.table)]
        self._report_tables(named)
        names = {count.table_id: count.table for count in named}
        for table_id, traffic in inventory.traffic.items():
            self._traffic.report(traffic, None if table_id is None else names.get(table_id))

    def _has_name(self, table: str) -> bool:
        # Clients choose table names, and a series is never freed: their number is bounded.
        if table not in self._names and len(self._names) >= MAX_TABLES:
            return False
        self._names.add(table)
        return True

    def _report_tables(self, counts: Sequence[TableInventory]) -> None:
        current = set()
        for count in counts:
            for family, labels, value in (*self._of_table(count), *self._lake.of_table(count)):
                family.of(*labels).set(value)
                current.add((family, labels))
        for family, labels in self._set - current:
            family.of(*labels).unset()
        self._set = current

    def _of_table(self, count: TableInventory) -> Iterator[_Sample]:
        table = count.table
        yield self._table_records, (table,), count.readable
        yield self._table_written, (table,), count.written
        yield self._table_pending, (table,), count.pending
        for kind, size in (
            ("log", count.log_bytes),
            ("remote_log", count.remote_bytes),
            ("kv_index", count.index_bytes),
        ):
            yield self._table_stored, (table, kind), size


class _Calls:
    """Requests of clients: their number, time and bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "lakebed_streams_requests_total", "Requests of stream clients, by call and outcome.", ("call", "outcome")
        )
        self._seconds = metrics.histogram(
            "lakebed_streams_request_seconds",
            "Time from a request's frame to its response, queueing included.",
            ("call",),
        )
        self._handled = metrics.counter(
            "lakebed_streams_handling_seconds_total", "Time that requests spent in their handlers.", ("call",)
        )
        self._waited = metrics.counter(
            "lakebed_streams_backpressure_seconds_total",
            "Time that handlers waited for the client to read the previous large response.",
            ("call",),
        )
        self._received = metrics.counter(
            "lakebed_streams_received_bytes_total", "Bytes of request messages.", ("call",)
        )
        self._sent = metrics.counter("lakebed_streams_sent_bytes_total", "Bytes of response messages.", ("call",))
        self._in_progress = metrics.gauge(
            "lakebed_streams_requests_in_progress", "Requests that are in their handlers.", ("call",)
        )
        self._known: dict[tuple[str, str], _Series] = {}

    def observe(self, call: str, outcome: str, seconds: float) -> None:
        series = self._known.get((call, outcome))
        if series is None:
            series = _Series(self._requests.of(call, outcome), self._seconds.of(call))
            # Never evicted: the server defines calls and outcomes, and they are few.
            self._known[call, outcome] = series
        series.requests.add()
        series.seconds.observe(seconds)

    def report(self, call: str, count: CallCount) -> None:
        self._received.of(call).add(count.received_bytes)
        self._sent.of(call).add(count.sent_bytes)
        self._handled.of(call).add(count.handled_seconds)
        self._waited.of(call).add(count.waited_seconds)
        self._in_progress.of(call).set(count.in_flight)
        count.received_bytes = count.sent_bytes = 0
        count.handled_seconds = count.waited_seconds = 0.0


class _Traffic:
    """Bytes and records in and out, for all tables together and for each named table."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "lakebed_streams_bucket_requests_total",
            "Per-bucket parts of requests, by call and outcome.",
            ("call", "outcome"),
        )
        self._bytes = metrics.counter(
            "lakebed_streams_traffic_bytes_total", "Bytes of records and rows, by direction.", ("direction",)
        )
        self._records = metrics.counter(
            "lakebed_streams_traffic_records_total",
            "Records written, and log records fetched or skipped by a filter, by direction.",
            ("direction",),
        )
        self._table_requests = metrics.counter(
            "lakebed_streams_table_requests_total",
            "Per-bucket parts of requests to a table, by call and outcome.",
            ("table", "call", "outcome"),
        )
        self._table_bytes = metrics.counter(
            "lakebed_streams_table_traffic_bytes_total",
            "Bytes of records and rows of a table, by direction.",
            ("table", "direction"),
        )
        self._table_records = metrics.counter(
            "lakebed_streams_table_traffic_records_total",
            "Records of a table written, and log records fetched or skipped by a filter, by direction.",
            ("table", "direction"),
        )

    def report(self, traffic: TableTraffic, table: str | None) -> None:
        """Add the traffic since the last report; `table` is the table's name, if it has a label."""
        for direction, size, records in (
            ("in", traffic.bytes_in, traffic.records_in),
            ("out", traffic.bytes_out, traffic.records_out),
        ):
            self._bytes.of(direction).add(size)
            self._records.of(direction).add(records)
            if table is not None:
                self._table_bytes.of(table, direction).add(size)
                self._table_records.of(table, direction).add(records)
        for outcome, parts in ((_OK, traffic.answered), (_FAILED, traffic.failed)):
            for call, count in parts.items():
                self._requests.of(call, outcome).add(count)
                if table is not None:
                    self._table_requests.of(table, call, outcome).add(count)


class _LakeTables:
    """Lake tiering of tables."""

    def __init__(self, metrics: Metrics) -> None:
        def of_table(name: str, text: str) -> GaugeFamily:
            return metrics.gauge(f"lakebed_streams_lake_table_{name}", text, ("table",))

        self._tables = metrics.gauge(
            "lakebed_streams_lake_tables", "Tables that are tiered into the lake, by tiering state.", ("state",)
        )
        self._failures = metrics.gauge(
            "lakebed_streams_lake_failures", "Failed tiering rounds since this server became the leader."
        )
        self._age = of_table("age_seconds", "Age of a table's data in the lake.")
        self._freshness = of_table("freshness_seconds", "Largest allowed age of a table's data in the lake.")
        self._lag = of_table("lag_seconds", "Time span of a table's records that are not yet in the lake.")
        self._waiting = of_table("waiting_seconds", "Time that a table has waited for a tiering worker.")
        self._round = of_table("round_seconds", "Duration of a table's last tiering round.")
        self._tiered = of_table(
            "tiered_timestamp_seconds", "Time as of which all records of a table were in the lake, in Unix seconds."
        )
        self._fresh = of_table("fresh", "Whether the age of a table's data in the lake is within its freshness.")
        self._round_bytes = of_table("round_bytes", "Bytes written by a table's last tiering round.")
        self._round_records = of_table("round_records", "Records written by a table's last tiering round.")
        self._table_failures = of_table(
            "failures", "Failed tiering rounds of a table since this server became the leader."
        )

    def report(self, inventory: StreamInventory) -> None:
        """Set the metrics of all tables together."""
        for state in TieringState:
            self._tables.of(state.value).set(inventory.lake_tables.get(state.value, 0))
        self._failures.of().set(inventory.lake_failures)

    def of_table(self, count: TableInventory) -> Iterator[_Sample]:
        """The samples of a tiered table. Unknown values have none."""
        lake = count.lake
        if lake is None:
            return
        for family, milliseconds in (
            (self._age, lake.age_ms),
            (self._freshness, lake.freshness_ms),
            (self._lag, lake.lag_ms),
            (self._waiting, lake.waits_ms),
            (self._round, lake.took_ms),
            (self._tiered, lake.tiered_ms),
        ):
            if milliseconds is not None:
                yield family, (count.table,), milliseconds / 1000
        for family, number in (
            (self._fresh, lake.is_fresh),
            (self._round_bytes, lake.file_bytes),
            (self._round_records, lake.records),
            (self._table_failures, lake.failures),
        ):
            if number is not None:
                yield family, (count.table,), number
