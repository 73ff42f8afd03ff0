"""What is told of streams: of all of them together, and of tables by name, as long as there is room for names."""

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
"""Those that are about a bucket of a table with keys, of which there are the most."""


class Told:
    """Instruments, and what they tell."""

    def __init__(self, folder: Path) -> None:
        self.metrics = Metrics(folder, 0)
        self.streams = StreamInstruments(self.metrics)

    def lines(self, prefix: str = "lakebed_streams_") -> dict[str, str]:
        """Each series that begins so, and its number."""
        lines = self.metrics.render().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if line.startswith(prefix))


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    made = Told(tmp_path)
    yield made
    made.metrics.close()


def test_tables_are_told_of_while_they_are_there_and_not_without_number(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instruments_module, "MAX_TABLES", 2)

    def records(*tables: str) -> dict[str, str]:
        told.streams.report(
            StreamInventory(by_table=[TableInventory(number, name, 5, 7, 2) for number, name in enumerate(tables)])
        )
        lines = told.lines("lakebed_streams_table_")
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
    assert records("fluss.c") == {}  # two names are in use already
    assert named("fluss.a") in records("fluss.a", "fluss.c")


def test_what_there_is_and_what_it_takes(told: Told) -> None:
    told.streams.report(
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
    lines = told.lines()
    objects = {"buckets": 9, "offline_buckets": 2, "not_uploaded_buckets": 3}
    objects |= {"segments": 11, "remote_segments": 12, "writers": 13, "kv_snapshots": 5}
    for kind, count in objects.items():
        assert lines[f'lakebed_streams_objects{{kind="{kind}"}}'] == str(count)
    for kind, size in {"log": 1000, "remote_log": 2000, "kv_index": 70, "kv_snapshots": 600}.items():
        assert lines[f'lakebed_streams_stored_bytes{{kind="{kind}"}}'] == str(size)
    for kind, size in {"log": 10, "remote_log": 20, "kv_index": 30}.items():
        assert lines[f'lakebed_streams_table_stored_bytes{{table="fluss.a",kind="{kind}"}}'] == str(size)
    assert lines["lakebed_streams_leader"] == "1"
    told.streams.report(StreamInventory(), is_leader=False)
    lines = told.lines()
    assert lines["lakebed_streams_leader"] == "0"
    assert not any("fluss.a" in name for name in lines)


def test_counters_go_on_from_what_was_told(told: Told) -> None:
    for _ in range(2):
        told.streams.report(StreamInventory(uploads=UploadCounts(2, 300, 1)))
    lines = told.lines("lakebed_streams_upload")
    assert lines == {
        "lakebed_streams_uploaded_segments_total": "4",
        "lakebed_streams_uploaded_bytes_total": "600",
        "lakebed_streams_upload_failures_total": "2",
    }


def test_traffic_is_told_of_all_and_of_tables_that_have_a_name(told: Told) -> None:
    traffic = Traffic()
    for table_id in (1, 2):
        traffic.record_write(table_id, "PRODUCE_LOG", 100, 5)
        traffic.record_read(table_id, "FETCH_LOG", 60, 3)
        traffic.record_failure(table_id, "FETCH_LOG")
    traffic.record_failure(None, "PUT_KV", 2)
    told.streams.report(StreamInventory(traffic=traffic.take(), by_table=[TableInventory(1, "fluss.a")]))
    lines = told.lines()
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


def test_of_the_lake_is_told_what_is_known(told: Told) -> None:
    told.streams.report(
        StreamInventory(by_table=[TableInventory(1, "fluss.a", lake=LakeTableStats(30_000, waits_ms=1_500))])
    )
    table = 'table="fluss.a"'
    seconds = "lakebed_streams_lake_table_%s_seconds{" + table + "}"
    assert told.lines("lakebed_streams_lake_table_") == {
        seconds % "freshness": "30",
        seconds % "waiting": "1.5",
        f"lakebed_streams_lake_table_fresh{{{table}}}": "0",
        f"lakebed_streams_lake_table_failures{{{table}}}": "0",
    }
    known = LakeTableStats(30_000, 7_000_000, 2_000, 250, 0, 4_000, 1234, 56, failures=3)
    told.streams.report(StreamInventory(by_table=[TableInventory(1, "fluss.a", lake=known)]))
    assert told.lines("lakebed_streams_lake_table_") == {
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
    told.streams.report(
        StreamInventory(by_table=[TableInventory(1, "fluss.a")])
    )  # it is not to be in the lake any more
    assert told.lines("lakebed_streams_lake_table_") == {}


def test_calls_are_told_and_counted_anew(told: Told) -> None:
    count = CallCount()
    for _ in range(2):
        count.received_bytes, count.sent_bytes, count.in_flight = 10, 20, 3
        count.handled_seconds, count.waited_seconds = 1.5, 0.25
        told.streams.report_calls([("LOOKUP", count)])
    assert (count.received_bytes, count.handled_seconds, count.in_flight) == (0, 0.0, 3)
    lines = told.lines()
    for name, value in {
        "received_bytes_total": "20",
        "sent_bytes_total": "40",
        "handling_seconds_total": "3",
        "backpressure_seconds_total": "0.5",
        "requests_in_progress": "3",
    }.items():
        assert lines[f'lakebed_streams_{name}{{call="LOOKUP"}}'] == value


def test_all_that_is_told_of_tables_finds_room(told: Told) -> None:
    """With as many calls as there are, and names as long as many are."""
    for number in range(60):
        for outcome in ("ok", "failed", "crashed"):
            told.streams.observe(f"A_CALL_WITH_A_NAME_{number}", outcome, 0.1)
        told.streams.report_calls([(f"A_CALL_WITH_A_NAME_{number}", CallCount())])
    moved = TableTraffic()
    for call in CALLS:
        moved.answered[call] = moved.failed[call] = 1
    lake = LakeTableStats(30_000, 1, 1, 1, 1, 1, 1, 1)
    tables = [TableInventory(number, f"fluss.orders_{number:04}", lake=lake) for number in range(2 * 400)]
    for first in range(0, len(tables), 100):
        some = tables[first : first + 100]
        told.streams.report(StreamInventory(by_table=some, traffic={each.table_id: moved for each in some}))
    assert told.lines("lakebed_metrics_dropped_samples_total") == {"lakebed_metrics_dropped_samples_total": "0"}
