"""Metrics of streams: totals, and per-table series up to a limit of table names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.server.metrics import Metrics
from lakebed.server.metrics import stream_instruments as instruments_module
from lakebed.server.metrics.stream_instruments import StreamInstruments
from lakebed.streams.admin.inventory import LakeTableStats, StreamInventory, TableInventory
from lakebed.streams.admin.kv_sizes import KvSizes
from lakebed.streams.admin.stats import ClusterHealth
from lakebed.streams.buckets.log_maintenance import UploadCounts
from lakebed.streams.traffic import TableTraffic, Traffic
from lakebed.wire.fluss.transport.call_counts import CallCount

CALLS = ("PUT_KV", "LOOKUP", "PREFIX_LOOKUP", "LIMIT_SCAN", "FETCH_LOG")
"""The calls on a bucket of a KV table: the kind of table with the most calls."""


class ExposedInstruments:
    """Stream instruments with their exposition."""

    def __init__(self, folder: Path) -> None:
        self.metrics = Metrics(folder, 0)
        self.streams = StreamInstruments(self.metrics)

    def lines(self, prefix: str = "lakebed_streams_") -> dict[str, str]:
        """The value of each series with this prefix."""
        lines = self.metrics.render().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if line.startswith(prefix))


@pytest.fixture
def instruments(tmp_path: Path) -> Iterator[ExposedInstruments]:
    made = ExposedInstruments(tmp_path)
    yield made
    made.metrics.close()


def test_table_series_exist_while_the_table_does_and_up_to_a_limit(
    instruments: ExposedInstruments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instruments_module, "MAX_TABLES", 2)

    def records(*tables: str) -> dict[str, str]:
        instruments.streams.report(
            StreamInventory(by_table=[TableInventory(number, name, 5, 7, 2) for number, name in enumerate(tables)])
        )
        lines = instruments.lines("lakebed_streams_table_")
        return {name: value for name, value in lines.items() if "_records{" in name and "traffic" not in name}

    def named(table: str, metric: str = "records") -> str:
        return f'lakebed_streams_table_{metric}{{table="{table}"}}'

    assert records("fluss.a") == {
        named("fluss.a", "pending_records"): "2",
        named("fluss.a"): "5",
        named("fluss.a", "written_records"): "7",
    }
    assert named("fluss.b") in records("fluss.b")
    assert named("fluss.a") not in records("fluss.b")
    assert records("fluss.c") == {}  # the limit of two names is reached
    assert named("fluss.a") in records("fluss.a", "fluss.c")


def test_objects_and_stored_bytes_are_reported_by_kind(instruments: ExposedInstruments) -> None:
    instruments.streams.report(
        StreamInventory(
            health=ClusterHealth(buckets=9, active=7, in_sync=4),
            segments=11,
            remote_segments=12,
            writers=13,
            log_bytes=1000,
            remote_bytes=2000,
            kv=KvSizes({1: 30, 2: 40}, snapshots=5, snapshot_bytes=600),
            by_table=[TableInventory(1, "fluss.a", log_bytes=10, remote_bytes=20, index_bytes=30)],
        )
    )
    lines = instruments.lines()
    objects = {"buckets": 9, "offline_buckets": 2, "not_uploaded_buckets": 3}
    objects |= {"segments": 11, "remote_segments": 12, "writers": 13, "kv_snapshots": 5}
    for kind, count in objects.items():
        assert lines[f'lakebed_streams_objects{{kind="{kind}"}}'] == str(count)
    for kind, size in {"log": 1000, "remote_log": 2000, "kv_index": 70, "kv_snapshots": 600}.items():
        assert lines[f'lakebed_streams_stored_bytes{{kind="{kind}"}}'] == str(size)
    for kind, size in {"log": 10, "remote_log": 20, "kv_index": 30}.items():
        assert lines[f'lakebed_streams_table_stored_bytes{{table="fluss.a",kind="{kind}"}}'] == str(size)
    assert lines["lakebed_streams_leader"] == "1"
    instruments.streams.report(StreamInventory(), is_leader=False)
    lines = instruments.lines()
    assert lines["lakebed_streams_leader"] == "0"
    assert not any("fluss.a" in name for name in lines)


def test_counters_add_up_over_reports(instruments: ExposedInstruments) -> None:
    for _ in range(2):
        instruments.streams.report(StreamInventory(uploads=UploadCounts(2, 300, 1)))
    lines = instruments.lines("lakebed_streams_upload")
    assert lines == {
        "lakebed_streams_uploaded_segments_total": "4",
        "lakebed_streams_uploaded_bytes_total": "600",
        "lakebed_streams_upload_failures_total": "2",
    }


def test_traffic_is_reported_in_total_and_per_named_table(instruments: ExposedInstruments) -> None:
    traffic = Traffic()
    for table_id in (1, 2):
        traffic.record_write(table_id, "PRODUCE_LOG", 100, 5)
        traffic.record_read(table_id, "FETCH_LOG", 60, 3)
        traffic.record_failure(table_id, "FETCH_LOG")
    traffic.record_failure(None, "PUT_KV", 2)
    instruments.streams.report(StreamInventory(traffic=traffic.take(), by_table=[TableInventory(1, "fluss.a")]))
    lines = instruments.lines()
    assert lines['lakebed_streams_traffic_bytes_total{direction="in"}'] == "200"
    assert lines['lakebed_streams_traffic_records_total{direction="out"}'] == "6"
    assert lines['lakebed_streams_bucket_requests_total{call="FETCH_LOG",outcome="ok"}'] == "2"
    assert lines['lakebed_streams_bucket_requests_total{call="FETCH_LOG",outcome="failed"}'] == "2"
    assert lines['lakebed_streams_bucket_requests_total{call="PUT_KV",outcome="failed"}'] == "2"
    of_tables = {name: value for name, value in lines.items() if "{table=" in name and "_total" in name}
    assert of_tables == {
        'lakebed_streams_table_traffic_bytes_total{table="fluss.a",direction="in"}': "100",
        'lakebed_streams_table_traffic_bytes_total{table="fluss.a",direction="out"}': "60",
        'lakebed_streams_table_traffic_records_total{table="fluss.a",direction="in"}': "5",
        'lakebed_streams_table_traffic_records_total{table="fluss.a",direction="out"}': "3",
        'lakebed_streams_table_requests_total{table="fluss.a",call="PRODUCE_LOG",outcome="ok"}': "1",
        'lakebed_streams_table_requests_total{table="fluss.a",call="FETCH_LOG",outcome="ok"}': "1",
        'lakebed_streams_table_requests_total{table="fluss.a",call="FETCH_LOG",outcome="failed"}': "1",
    }


def test_lake_series_report_known_values_only(instruments: ExposedInstruments) -> None:
    instruments.streams.report(
        StreamInventory(by_table=[TableInventory(1, "fluss.a", lake=LakeTableStats(30_000, waits_ms=1_500))])
    )
    table = 'table="fluss.a"'
    seconds = "lakebed_streams_lake_table_%s_seconds{" + table + "}"
    assert instruments.lines("lakebed_streams_lake_table_") == {
        seconds % "freshness": "30",
        seconds % "waiting": "1.5",
        f"lakebed_streams_lake_table_fresh{{{table}}}": "0",
        f"lakebed_streams_lake_table_failures{{{table}}}": "0",
    }
    known = LakeTableStats(30_000, 7_000_000, 2_000, 250, 0, 4_000, 1234, 56, failures=3)
    instruments.streams.report(StreamInventory(by_table=[TableInventory(1, "fluss.a", lake=known)]))
    assert instruments.lines("lakebed_streams_lake_table_") == {
        seconds % "freshness": "30",
        seconds % "age": "2",
        seconds % "lag": "0.25",
        seconds % "waiting": "0",
        seconds % "round": "4",
        f"lakebed_streams_lake_table_tiered_timestamp_seconds{{{table}}}": "7000",
        f"lakebed_streams_lake_table_fresh{{{table}}}": "1",
        f"lakebed_streams_lake_table_round_bytes{{{table}}}": "1234",
        f"lakebed_streams_lake_table_round_records{{{table}}}": "56",
        f"lakebed_streams_lake_table_failures{{{table}}}": "3",
    }
    instruments.streams.report(StreamInventory(by_table=[TableInventory(1, "fluss.a")]))  # lake tiering was disabled
    assert instruments.lines("lakebed_streams_lake_table_") == {}


def test_reporting_calls_resets_their_counts(instruments: ExposedInstruments) -> None:
    count = CallCount()
    for _ in range(2):
        count.received_bytes, count.sent_bytes, count.in_flight = 10, 20, 3
        count.handled_seconds, count.waited_seconds = 1.5, 0.25
        instruments.streams.report_calls([("LOOKUP", count)])
    assert (count.received_bytes, count.handled_seconds, count.in_flight) == (0, 0.0, 3)
    lines = instruments.lines()
    for name, value in {
        "received_bytes_total": "20",
        "sent_bytes_total": "40",
        "handling_seconds_total": "3",
        "backpressure_seconds_total": "0.5",
        "requests_in_progress": "3",
    }.items():
        assert lines[f'lakebed_streams_{name}{{call="LOOKUP"}}'] == value


def test_series_of_many_tables_fit_into_the_metrics_file(instruments: ExposedInstruments) -> None:
    """With as many calls as the protocol has, and table names of usual length."""
    for number in range(60):
        for outcome in ("ok", "failed", "crashed"):
            instruments.streams.observe(f"A_CALL_WITH_A_NAME_{number}", outcome, 0.1)
        instruments.streams.report_calls([(f"A_CALL_WITH_A_NAME_{number}", CallCount())])
    moved = TableTraffic()
    for call in CALLS:
        moved.answered[call] = moved.failed[call] = 1
    lake = LakeTableStats(30_000, 1, 1, 1, 1, 1, 1, 1)
    tables = [TableInventory(number, f"fluss.orders_{number:04}", lake=lake) for number in range(2 * 400)]
    for first in range(0, len(tables), 100):
        some = tables[first : first + 100]
        instruments.streams.report(StreamInventory(by_table=some, traffic={each.table_id: moved for each in some}))
    assert instruments.lines("lakebed_metrics_dropped_samples_total") == {"lakebed_metrics_dropped_samples_total": "0"}
