"""What is told of streams: the calls of clients, what there is, what goes in and out, and how far the lake is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.streams.lake.schedule import TieringState

from . import Counter, Histogram, Metrics
from .registry import GaugeFamily

if TYPE_CHECKING:
    # What counts needs what streams need, and every process has instruments.
    from lakebed.streams.admin.inventory import StreamInventory, TableInventory
    from lakebed.streams.traffic import TableTraffic
    from lakebed.wire.fluss.transport.call_counts import CallCount

MAX_TABLES: Final = 400
"""Stream tables that are told of by name, as long as a server runs: with all that is told of each they find room."""

_OK: Final = "ok"
_FAILED: Final = "failed"

_Told = tuple[GaugeFamily, tuple[str, ...], float]
"""A gauge, its labels, and what it is to be."""


class _Series(NamedTuple):
    """What every answer to a call with one outcome is counted in."""

    requests: Counter
    seconds: Histogram


class StreamInstruments:
    """The metric families of streams."""

    def __init__(self, metrics: Metrics) -> None:
        self._calls = _Calls(metrics)
        self._lake = _LakeTables(metrics)
        self._traffic = _Traffic(metrics)
        self.connections = metrics.gauge("lakebed_streams_connections", "Open connections of stream clients.").of()
        self._leader = metrics.gauge("lakebed_streams_home", "Whether this server is the home of streams.").of()
        self._there = metrics.gauge("lakebed_streams_things", "What there is of streams, by kind.", ("kind",))
        self._records = metrics.gauge(
            "lakebed_streams_records", "Records of open logs: all that can be read, or not in the lake yet.", ("which",)
        )
        self._stored = metrics.gauge(
            "lakebed_streams_stored_bytes",
            "What streams take: open logs here and in the byte store, indexes of keys here, snapshots of them there.",
            ("kind",),
        )
        self._copied_segments = metrics.counter(
            "lakebed_streams_copied_segments_total", "Segments of logs that were copied to the byte store."
        ).of()
        self._copied_bytes = metrics.counter("lakebed_streams_copied_bytes_total", "Their bytes.").of()
        self._copy_failures = metrics.counter(
            "lakebed_streams_copy_failures_total", "Times that a log could not be copied to the byte store."
        ).of()
        self._flushes = metrics.histogram(
            "lakebed_streams_flush_seconds",
            "Time to bring to disk a group of appends to a log, or what an index of keys has in memory alone.",
            ("kind",),
        )
        self._table_records = metrics.gauge(
            "lakebed_streams_table_records",
            "Records of the open logs of a table: all that can be read, ever written, or not in the lake yet.",
            ("table", "which"),
        )
        self._table_stored = metrics.gauge(
            "lakebed_streams_table_stored_bytes",
            "What a table takes: its open logs here and in the byte store, indexes of its keys here.",
            ("table", "kind"),
        )
        self._names: set[str] = set()
        self._told: set[tuple[GaugeFamily, tuple[str, ...]]] = set()

    def observe(self, call: str, outcome: str, seconds: float) -> None:
        """Count one answer."""
        self._calls.observe(call, outcome, seconds)

    def report_calls(self, counts: Iterable[tuple[str, CallCount]]) -> None:
        """Tell what was counted of calls, and begin to count anew."""
        for call, count in counts:
            self._calls.report(call, count)

    def report(self, inventory: StreamInventory, *, is_leader: bool = True) -> None:
        """Tell what was counted of streams."""
        self._leader.set(is_leader)
        health = inventory.health
        for kind, count in (
            ("tables", inventory.tables),
            ("keyed_tables", inventory.kv_tables),
            ("partitions", inventory.partitions),
            ("buckets", health.buckets),
            ("open_buckets", inventory.open_buckets),
            ("offline_buckets", health.buckets - health.active),
            ("uncopied_buckets", health.active - health.in_sync),
            ("segments", inventory.segments),
            ("remote_segments", inventory.remote_segments),
            ("writers", inventory.writers),
            ("key_snapshots", inventory.keys.snapshots),
            ("key_snapshot_leases", inventory.leases),
            ("leased_key_snapshots", inventory.leased_snapshots),
        ):
            self._there.of(kind).set(count)
        self._records.of("readable").set(inventory.records)
        self._records.of("pending").set(inventory.pending_records)
        for kind, size in (
            ("log", inventory.log_bytes),
            ("remote_log", inventory.remote_bytes),
            ("keys", sum(inventory.keys.index_bytes.values())),
            ("key_snapshots", inventory.keys.snapshot_bytes),
        ):
            self._stored.of(kind).set(size)
        self._copied_segments.add(inventory.copied.segments)
        self._copied_bytes.add(inventory.copied.size_bytes)
        self._copy_failures.add(inventory.copied.failures)
        for kind, flushes in inventory.flush_seconds.items():
            of_kind = self._flushes.of(kind)
            for seconds in flushes:
                of_kind.observe(seconds)
        self._lake.report(inventory)
        named = [count for count in inventory.by_table if self._has_name(count.table)]
        self._report_tables(named)
        names = {count.table_id: count.table for count in named}
        for table_id, moved in inventory.traffic.items():
            self._traffic.report(moved, None if table_id is None else names.get(table_id))

    def _has_name(self, table: str) -> bool:
        # Clients name tables, and a series that was used has its place for good: so many there are, and no more.
        if table not in self._names and len(self._names) >= MAX_TABLES:
            return False
        self._names.add(table)
        return True

    def _report_tables(self, counts: Sequence[TableInventory]) -> None:
        told = set()
        for count in counts:
            for family, labels, value in (*self._of_table(count), *self._lake.of_table(count)):
                family.of(*labels).set(value)
                told.add((family, labels))
        for family, labels in self._told - told:
            family.of(*labels).unset()
        self._told = told

    def _of_table(self, count: TableInventory) -> Iterator[_Told]:
        for which, records in (("readable", count.readable), ("written", count.written), ("pending", count.pending)):
            yield self._table_records, (count.table, which), records
        for kind, size in (("log", count.log_bytes), ("remote_log", count.remote_bytes), ("keys", count.index_bytes)):
            yield self._table_stored, (count.table, kind), size


class _Calls:
    """What clients ask for: how often, how long it takes, how many bytes it is."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "lakebed_streams_requests_total", "Calls of stream clients, by call and outcome.", ("call", "outcome")
        )
        self._seconds = metrics.histogram(
            "lakebed_streams_request_seconds", "Time from a call's frame to its answer, waiting included.", ("call",)
        )
        self._handled = metrics.counter(
            "lakebed_streams_handling_seconds_total", "Time that calls were with their handlers.", ("call",)
        )
        self._waited = metrics.counter(
            "lakebed_streams_waited_seconds_total",
            "Time that calls waited with their handlers for the client to take the large answer before.",
            ("call",),
        )
        self._received = metrics.counter(
            "lakebed_streams_received_bytes_total", "Bytes of the messages of calls.", ("call",)
        )
        self._sent = metrics.counter("lakebed_streams_sent_bytes_total", "Bytes of answers.", ("call",))
        self._under_way = metrics.gauge("lakebed_streams_calls", "Calls that are with their handlers.", ("call",))
        self._known: dict[tuple[str, str], _Series] = {}

    def observe(self, call: str, outcome: str, seconds: float) -> None:
        series = self._known.get((call, outcome))
        if series is None:
            series = _Series(self._requests.of(call, outcome), self._seconds.of(call))
            # Kept for good: calls and outcomes are of our making, and few.
            self._known[call, outcome] = series
        series.requests.add()
        series.seconds.observe(seconds)

    def report(self, call: str, count: CallCount) -> None:
        self._received.of(call).add(count.received_bytes)
        self._sent.of(call).add(count.sent_bytes)
        self._handled.of(call).add(count.handled_seconds)
        self._waited.of(call).add(count.waited_seconds)
        self._under_way.of(call).set(count.under_way)
        count.received_bytes = count.sent_bytes = 0
        count.handled_seconds = count.waited_seconds = 0.0


class _Traffic:
    """What goes into tables and out of them; of those with a name also of each."""

    def __init__(self, metrics: Metrics) -> None:
        self._parts = metrics.counter(
            "lakebed_streams_bucket_requests_total",
            "Parts of calls that are about one bucket, by call and outcome.",
            ("call", "outcome"),
        )
        self._bytes = metrics.counter(
            "lakebed_streams_traffic_bytes_total", "Bytes of records and rows, in and out.", ("which",)
        )
        self._records = metrics.counter(
            "lakebed_streams_traffic_records_total",
            "Records that were written, and records of logs that readers were brought past.",
            ("which",),
        )
        self._table_parts = metrics.counter(
            "lakebed_streams_table_requests_total",
            "Parts of calls that are about one bucket of a table, by call and outcome.",
            ("table", "call", "outcome"),
        )
        self._table_bytes = metrics.counter(
            "lakebed_streams_table_traffic_bytes_total",
            "Bytes of records and rows of a table, in and out.",
            ("table", "which"),
        )
        self._table_records = metrics.counter(
            "lakebed_streams_table_traffic_records_total",
            "Records of a table that were written, and those of its logs that readers were brought past.",
            ("table", "which"),
        )

    def report(self, moved: TableTraffic, table: str | None) -> None:
        """Tell what was moved since the last time; of a table that has a name also by that."""
        for which, size, records in (
            ("in", moved.bytes_in, moved.records_in),
            ("out", moved.bytes_out, moved.records_out),
        ):
            self._bytes.of(which).add(size)
            self._records.of(which).add(records)
            if table is not None:
                self._table_bytes.of(table, which).add(size)
                self._table_records.of(table, which).add(records)
        for outcome, parts in ((_OK, moved.answered), (_FAILED, moved.failed)):
            for call, count in parts.items():
                self._parts.of(call, outcome).add(count)
                if table is not None:
                    self._table_parts.of(table, call, outcome).add(count)


class _LakeTables:
    """How far tables are in the lake."""

    def __init__(self, metrics: Metrics) -> None:
        self._tables = metrics.gauge(
            "lakebed_streams_lake_tables", "Tables that are tiered into the lake, by what they wait for.", ("state",)
        )
        self._failures = metrics.gauge(
            "lakebed_streams_lake_failures", "Rounds of tiering that failed since this server is the home."
        )
        self._seconds = metrics.gauge(
            "lakebed_streams_lake_table_seconds",
            "Of a table in the lake: its age there, how old it may get, up to which time records are missing, how long "
            "it waits for a worker, how long the last round took.",
            ("table", "which"),
        )
        self._tiered = metrics.gauge(
            "lakebed_streams_lake_table_tiered_timestamp_seconds",
            "As of when a table was in the lake as far as it went.",
            ("table",),
        )
        self._is_fresh = metrics.gauge(
            "lakebed_streams_lake_table_fresh", "Whether what is in the lake is no older than it may be.", ("table",)
        )
        self._round = metrics.gauge(
            "lakebed_streams_lake_table_round", "What the last round wrote, as its worker said.", ("table", "which")
        )
        self._table_failures = metrics.gauge(
            "lakebed_streams_lake_table_failures",
            "Rounds of tiering of a table that failed since this server is the home.",
            ("table",),
        )

    def report(self, inventory: StreamInventory) -> None:
        """Tell of all tables together."""
        for state in TieringState:
            self._tables.of(state.value).set(inventory.lake_tables.get(state.value, 0))
        self._failures.of().set(inventory.lake_failures)

    def of_table(self, count: TableInventory) -> Iterator[_Told]:
        """What is to be told of one, if it is to be in the lake. What is not known is not told."""
        table, lake = count.table, count.lake
        if lake is None:
            return
        for which, milliseconds in (
            ("age", lake.age_ms),
            ("freshness", lake.freshness_ms),
            ("lag", lake.lag_ms),
            ("waiting", lake.waits_ms),
            ("round", lake.took_ms),
        ):
            if milliseconds is not None:
                yield self._seconds, (table, which), milliseconds / 1000
        if lake.tiered_ms is not None:
            yield self._tiered, (table,), lake.tiered_ms / 1000
        yield self._is_fresh, (table,), lake.is_fresh
        for which, number in (("bytes", lake.file_bytes), ("records", lake.records)):
            if number is not None:
                yield self._round, (table, which), number
        yield self._table_failures, (table,), lake.failures
