"""Stream tables for Spark, written with pyfluss, on a server with streams and a table bucket."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

import fluss
from tests.clients.streams.serving import StreamServer, connected, make_table
from tests.pipeline.bench import Bench

DATABASE: Final = "fluss"
ORDERS: Final = pa.schema([("id", pa.int32()), ("name", pa.string()), ("at", pa.timestamp("ms"))])
NOON: Final = datetime(2026, 11, 16, 12)


def order(number: int, name: str = "n") -> tuple[Any, ...]:
    """A row of ORDERS."""
    return number, name, NOON


@dataclass(frozen=True, slots=True)
class StreamBench:
    """Spark with a table bucket and the streams of a server."""

    bench: Bench
    streams: StreamServer

    def options(self, table: str, **more: str) -> dict[str, str]:
        access = self.bench.access
        keys = {"access-key-id": access.access_key_id, "secret-access-key": access.secret_access_key.reveal()}
        return {"table": f"{DATABASE}.{table}", "streams": self.streams.address, **keys, **more}

    def read(self, table: str, **more: str) -> Any:  # Any: a DataFrame
        return self.bench.spark.read.format("lakebed-stream").options(**self.options(table, **more)).load()

    def make(self, schema: pa.Schema = ORDERS, **described: Any) -> str:
        """Create a stream table; returns its name."""
        name = f"t_{uuid.uuid4().hex[:12]}"

        async def work(connection: Any) -> None:
            await make_table(connection, fluss.TablePath(DATABASE, name), schema, **described)

        self._with(work)
        return name

    def append(self, table: str, *rows: tuple[Any, ...], schema: pa.Schema = ORDERS) -> None:
        """Append rows as one batch."""

        async def work(connection: Any) -> None:
            opened = await connection.get_table(fluss.TablePath(DATABASE, table))
            writer = opened.new_append().create_writer()
            for row in rows:
                writer.append(dict(zip(schema.names, row, strict=True)))
            await writer.flush()

        self._with(work)

    def upsert(
        self, table: str, *rows: tuple[Any, ...], delete: tuple[int, ...] = (), schema: pa.Schema = ORDERS
    ) -> None:
        """Upsert rows, then delete keys."""

        async def work(connection: Any) -> None:
            opened = await connection.get_table(fluss.TablePath(DATABASE, table))
            writer = opened.new_upsert().create_writer()
            for row in rows:
                writer.upsert(dict(zip(schema.names, row, strict=True)))
            await writer.flush()
            for key in delete:
                writer.delete({"id": key})
            await writer.flush()

        self._with(work)

    def partition(self, table: str, **values: str) -> None:
        async def work(connection: Any) -> None:
            await connection.get_admin().create_partition(fluss.TablePath(DATABASE, table), values)

        self._with(work)

    def _with(self, work: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            async with connected(self.streams) as connection:
                await work(connection)

        asyncio.run(run())
