"""pyfluss and the Rust client behind one interface, for tests that drop partitions while clients use them.

Each client keeps its scanner, writers and lookuper with their cached metadata.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import fluss
from tests.clients.streams.serving import StreamServer, connected
from tests.fixtures.rust import find_or_build

__all__ = ["Client", "Refused", "pyfluss_client", "rust_client"]

_PROGRAM: Final = Path(__file__).parent / "rust"
_WAIT_MS: Final = 30_000


class Refused(Exception):
    """A call of the client failed."""


class Client(Protocol):
    """Operations on a table with an `id` and a `region`, partitioned by region."""

    async def subscribe(self, table: str, partition_id: int) -> None:
        """Subscribe the scanner of a table to another partition, from its beginning."""
        ...

    async def poll(self, table: str) -> list[int]:
        """The ids of the next rows of the scanner; empty after a timeout. Raises Refused."""
        ...

    async def append(self, table: str, id_: int, region: str) -> None:
        """Append a row to a log table and wait for the acknowledgement. Raises Refused."""
        ...

    async def upsert(self, table: str, id_: int, region: str) -> None:
        """Upsert a row into a KV table and wait for the acknowledgement. Raises Refused."""
        ...

    async def lookup(self, table: str, id_: int, region: str) -> int | None:
        """The id of the row with this key, if it exists. Raises Refused."""
        ...


class _Pyfluss:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._vended: dict[tuple[str, str], Any] = {}

    async def subscribe(self, table: str, partition_id: int) -> None:
        if ("scanner", table) not in self._vended:
            self._vended["scanner", table] = await (await self._table(table)).new_scan().create_log_scanner()
        self._vended["scanner", table].subscribe_partition(partition_id, 0, fluss.EARLIEST_OFFSET)

    async def poll(self, table: str) -> list[int]:
        try:
            return [record.row["id"] for record in await self._vended["scanner", table].poll(500)]
        except fluss.FlussError as error:
            raise Refused(str(error)) from error

    async def append(self, table: str, id_: int, region: str) -> None:
        if ("appends", table) not in self._vended:
            self._vended["appends", table] = (await self._table(table)).new_append().create_writer()
        await self._acknowledged(self._vended["appends", table].append({"id": id_, "region": region}))

    async def upsert(self, table: str, id_: int, region: str) -> None:
        if ("upserts", table) not in self._vended:
            self._vended["upserts", table] = (await self._table(table)).new_upsert().create_writer()
        await self._acknowledged(self._vended["upserts", table].upsert({"id": id_, "region": region}))

    async def lookup(self, table: str, id_: int, region: str) -> int | None:
        if ("lookups", table) not in self._vended:
            self._vended["lookups", table] = (await self._table(table)).new_lookup().create_lookuper()
        try:
            found = await self._vended["lookups", table].lookup({"id": id_, "region": region})
        except fluss.FlussError as error:
            raise Refused(str(error)) from error
        return None if found is None else int(found["id"])

    async def _table(self, name: str) -> Any:
        return await self._connection.get_table(fluss.TablePath(*name.split(".")))

    async def _acknowledged(self, written: Any) -> None:
        try:
            await asyncio.wait_for(written.wait(), _WAIT_MS / 1000)
        except fluss.FlussError as error:
            raise Refused(str(error)) from error


class _Rust:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def subscribe(self, table: str, partition_id: int) -> None:
        await self._do("subscribe", table, partition_id=partition_id)

    async def poll(self, table: str) -> list[int]:
        return list(await self._do("poll", table, wait_ms=500))

    async def append(self, table: str, id_: int, region: str) -> None:
        await self._do("append", table, id=id_, region=region, wait_ms=_WAIT_MS)

    async def upsert(self, table: str, id_: int, region: str) -> None:
        await self._do("upsert", table, id=id_, region=region, wait_ms=_WAIT_MS)

    async def lookup(self, table: str, id_: int, region: str) -> int | None:
        found = await self._do("lookup", table, id=id_, region=region, wait_ms=_WAIT_MS)
        return None if found is None else int(found)

    async def _do(self, command: str, table: str, **arguments: Any) -> Any:
        request = json.dumps({"do": command, "table": table} | arguments)
        answer = json.loads(await asyncio.to_thread(self._call, request))
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["found"]

    def _call(self, request: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the program was started without pipes")
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@asynccontextmanager
async def pyfluss_client(streams: StreamServer) -> AsyncIterator[Client]:
    """The Python client, on a new connection."""
    async with connected(streams) as connection:
        yield _Pyfluss(connection)


@asynccontextmanager
async def rust_client(streams: StreamServer) -> AsyncIterator[Client]:
    """The released Rust client, in a separate process."""
    program = await asyncio.to_thread(find_or_build, "stream-client", _PROGRAM)
    command = [str(program), streams.address, streams.server.access_key, streams.server.secret_key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _Rust(process)
        finally:
            process.kill()
