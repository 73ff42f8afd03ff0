"""Cluster health and metrics of a composed streams server, through its protocol calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest_asyncio

from lakebed.core.settings import ServerSettings, Settings
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.objects.model import Caller
from lakebed.server.metrics import Metrics
from lakebed.server.metrics.stream_instruments import StreamInstruments
from lakebed.server.stores.identity import Identity, establish_identity, root_credential
from lakebed.server.streams.composition import Streams, compose
from lakebed.streams.admin.stats import ClusterHealthStatus
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import RawCall, call_table
from lakebed.wire.fluss.transport.call_counts import CallCounts
from tests.contracts.stream_log import plain_batch

CREATE_TABLE, PRODUCE, FETCH, PUT, LOOKUP, LIMIT_SCAN, HEALTH = 1005, 1014, 1015, 1016, 1017, 1033, 1062
GET_TABLE_INFO, DROP_TABLE = 1007, 1006


class Client:
    """Calls the handlers without a connection."""

    def __init__(self, streams: Streams, identity: Identity, folder: Path) -> None:
        self.streams = streams
        self.metrics = Metrics(folder, 0)
        self._instruments = StreamInstruments(self.metrics)
        self._counts = CallCounts(lambda: 0.0)
        self._calls = call_table(self._counts.counted(streams.calls))
        self._caller = Caller(root_credential(identity).principal, request_id="r")

        async def max_in_flight() -> None:
            """Never blocks."""

        self._room: Any = SimpleNamespace(acquire_large=max_in_flight, wait_until_read=max_in_flight)

    async def ask(self, key: int, request: Any) -> Any:
        """Any: each call has a message of its own."""
        call = self._calls[key]
        if not isinstance(call, RawCall):
            return await call.handle(self._caller, request)
        return await call.handle(self._caller, memoryview(request.SerializeToString()), 0, self._room)

    async def table(self, name: str, *, key: bool = False, buckets: int = 1) -> int:
        columns = [
            {"name": "id", "data_type": {"type": "INTEGER", "nullable": not key}, "id": 0},
            {"name": "name", "data_type": {"type": "STRING"}, "id": 1},
        ]
        schema: dict[str, Any] = {"version": 1, "columns": columns, "highest_field_id": 1}
        if key:
            schema["primary_key"] = ["id"]
        document = json.dumps({"version": 1, "schema": schema, "bucket_count": buckets}).encode()
        path = pb.TablePath(database_name="fluss", table_name=name)
        await self.ask(
            CREATE_TABLE, pb.CreateTableRequest(table_path=path, table_json=document, ignore_if_exists=False)
        )
        return int((await self.ask(GET_TABLE_INFO, pb.GetTableInfoRequest(table_path=path))).table_id)

    async def produce(self, table_id: int, records: bytes, bucket: int = 0) -> Any:
        request = pb.ProduceLogRequest(acks=-1, table_id=table_id, timeout_ms=10_000)
        request.buckets.add(bucket_id=bucket, records=records)
        return (await self.ask(PRODUCE, request)).buckets[0]

    async def put(self, table_id: int, records: bytes) -> Any:
        request = pb.PutKvRequest(acks=-1, table_id=table_id, timeout_ms=10_000)
        request.buckets.add(bucket_id=0, records=records)
        return (await self.ask(PUT, request)).buckets[0]

    async def health(self) -> tuple[int, int, ClusterHealthStatus]:
        """Leader replicas, active leader replicas and status."""
        response = await self.ask(HEALTH, pb.GetClusterHealthRequest())
        return response.num_leader_replicas, response.active_leader_replicas, ClusterHealthStatus(response.status)

    async def samples(self) -> dict[str, str]:
        """The samples of the next scrape."""
        self._instruments.report_calls(self._counts)
        self._instruments.report(await self.streams.inventory.take())
        lines = self.metrics.render().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    settings = Settings(server=ServerSettings(data=tmp_path / "data"))
    settings.server.data.mkdir()
    identity = establish_identity(settings)
    async with compose(settings, identity, port=9123) as streams:
        await streams.leadership.acquire()
        made = Client(streams, identity, tmp_path / "metrics")
        yield made
        await streams.buckets.close()
        made.metrics.close()


async def test_damaged_log_makes_the_status_red_until_its_table_is_dropped(client: Client, tmp_path: Path) -> None:
    table_id = await client.table("orders", buckets=2)
    assert await client.health() == (2, 2, ClusterHealthStatus.GREEN)
    assert (await client.produce(table_id, plain_batch(3))).error_code == 0
    await client.streams.buckets.close()
    folder = tmp_path / "data" / "streams" / "logs" / str(table_id) / "all" / "0"
    (folder / "checkpoint").unlink(missing_ok=True)
    (log,) = folder.glob("*.log")
    log.unlink()
    log.mkdir()  # a directory in place of the log file, so that every write fails
    assert await client.health() == (2, 2, ClusterHealthStatus.GREEN)  # not detected yet
    assert (await client.produce(table_id, plain_batch(3))).error_code != 0
    assert await client.health() == (2, 1, ClusterHealthStatus.RED)
    assert (await client.samples())['lakebed_streams_objects{kind="offline_buckets"}'] == "1"
    path = pb.TablePath(database_name="fluss", table_name="orders")
    await client.ask(DROP_TABLE, pb.DropTableRequest(table_path=path, ignore_if_not_exists=False))
    assert await client.health() == (0, 0, ClusterHealthStatus.GREEN)


async def test_failing_kv_index_makes_the_status_red_until_it_recovers(client: Client, tmp_path: Path) -> None:
    table_id = await client.table("orders", key=True)
    lookup = pb.LookupRequest(table_id=table_id)
    lookup.buckets.add(bucket_id=0, keys=[b"\x00\x00\x00\x01"])
    await client.ask(LOOKUP, lookup)
    await client.streams.buckets.close()
    current = tmp_path / "data" / "streams" / "keys" / str(table_id) / "0" / "CURRENT"
    words = current.read_bytes()
    current.write_bytes(b"nonsense")
    await client.ask(LOOKUP, lookup)
    assert await client.health() == (1, 0, ClusterHealthStatus.RED)
    current.write_bytes(words)
    await client.ask(LOOKUP, lookup)
    assert await client.health() == (1, 1, ClusterHealthStatus.GREEN)
    lines = await client.samples()
    assert lines['lakebed_streams_table_requests_total{table="fluss.orders",call="LOOKUP",outcome="failed"}'] == "1"
    assert lines['lakebed_streams_table_requests_total{table="fluss.orders",call="LOOKUP",outcome="ok"}'] == "2"


async def test_reads_and_writes_of_clients_are_counted(client: Client) -> None:
    log_id, keys_id = await client.table("events"), await client.table("orders", key=True)
    batch = plain_batch(5, b"x" * 50)
    assert (await client.produce(log_id, batch)).error_code == 0
    assert (await client.produce(log_id, b"no batch at all")).error_code != 0
    assert (await client.produce(999, batch)).error_code != 0
    fetch = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1 << 20, max_wait_ms=0)
    fetched_table = fetch.tables.add(table_id=log_id, projection_pushdown_enabled=False)
    fetched_table.buckets.add(bucket_id=0, fetch_offset=2, max_fetch_bytes=1 << 20)
    await client.ask(FETCH, fetch)
    fetched_table.buckets[0].fetch_offset = 77
    await client.ask(FETCH, fetch)
    key = (1).to_bytes(4, "big")
    put = write_kv_batch([(key, None), ((2).to_bytes(4, "big"), None)], 1)
    assert (await client.put(keys_id, put)).error_code == 0
    assert (await client.put(keys_id, b"no batch at all")).error_code != 0
    lookup = pb.LookupRequest(table_id=keys_id)
    lookup.buckets.add(bucket_id=0, keys=[key])
    looked_up = sum(map(len, await client.ask(LOOKUP, lookup)))
    await client.ask(LIMIT_SCAN, pb.LimitScanRequest(table_id=log_id, bucket_id=0, limit=5))
    await client.ask(LIMIT_SCAN, pb.LimitScanRequest(table_id=log_id, bucket_id=7, limit=5))
    lines = await client.samples()

    def of(table: str, name: str, which: str) -> int:
        return int(lines[f'lakebed_streams_table_traffic_{name}_total{{table="fluss.{table}",direction="{which}"}}'])

    assert (of("events", "bytes", "in"), of("events", "records", "in")) == (len(batch), 5)
    assert of("events", "bytes", "out") == 2 * len(batch)  # by a fetch and a scan, which return whole batches
    assert of("events", "records", "out") == 3
    assert (of("orders", "bytes", "in"), of("orders", "records", "in")) == (len(put), 2)
    assert of("orders", "bytes", "out") == looked_up
    parts = "lakebed_streams_bucket_requests_total"
    assert {name.removeprefix(parts): value for name, value in lines.items() if name.startswith(parts)} == {
        '{call="FETCH_LOG",outcome="failed"}': "1",
        '{call="FETCH_LOG",outcome="ok"}': "1",
        '{call="LIMIT_SCAN",outcome="failed"}': "1",
        '{call="LIMIT_SCAN",outcome="ok"}': "1",
        '{call="LOOKUP",outcome="ok"}': "1",
        '{call="PRODUCE_LOG",outcome="failed"}': "2",
        '{call="PRODUCE_LOG",outcome="ok"}': "1",
        '{call="PUT_KV",outcome="failed"}': "1",
        '{call="PUT_KV",outcome="ok"}': "1",
    }
    assert int(lines['lakebed_streams_received_bytes_total{call="PUT_KV"}']) > len(put)
    assert int(lines['lakebed_streams_sent_bytes_total{call="FETCH_LOG"}']) > len(batch)
    assert lines['lakebed_streams_objects{kind="segments"}'] == "2"
    assert int(lines['lakebed_streams_table_stored_bytes{table="fluss.events",kind="log"}']) == len(batch)
    assert int(lines['lakebed_streams_table_stored_bytes{table="fluss.orders",kind="kv_index"}']) > 0
    assert lines["lakebed_metrics_dropped_samples_total"] == "0"
