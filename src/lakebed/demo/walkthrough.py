"""Runs the demo: starts a server in a new folder, uses it with real clients, and prints the results."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .ingestion import IngestDemo
from .maintenance import MaintenanceDemo
from .objects import ObjectDemo
from .server import DemoServer
from .tables import BUCKET, TableDemo

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from .streams import StreamDemo


class Walkthrough:
    """All steps, in order."""

    def __init__(self, folder: Path) -> None:
        """`play` empties the folder."""
        self._folder = folder
        self._server = DemoServer(folder)
        self._objects = ObjectDemo(self._server)
        self._made_tables: TableDemo | None = None
        self._made_streams: StreamDemo | None = None
        self._made_maintenance: MaintenanceDemo | None = None
        self._made_ingest: IngestDemo | None = None
        self._show: Callable[[str], None] = lambda text: None
        """Shows the progress of a long step on a terminal."""

    def play(self, screen: Console) -> None:
        """Run every step. Raises Unavailable, and what the clients raise."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        steps: list[tuple[str, Callable[[], str]]] = [
            ("start a server: one process tree, one folder", self._server.start),
            ("create a table bucket and stream tables, write records with pyfluss", self._write_streams),
            ("create a versioned bucket, write and list objects", self._objects.write),
            ("conditional write: 8 writers create one key, one succeeds", self._objects.fence),
            ("upload 64 MiB in parts, read it back", self._objects.upload_in_parts),
            ("kill -9 the whole server, start it again", self._crash),
            ("lake tiering: Spark copies the stream tables to Iceberg", lambda: self._streams().tier()),
            (
                "update and delete rows of a primary-key table",
                lambda: self._streams().merge(),
            ),
            ("encrypt at rest", self._objects.encrypt),
            ("assume a role: credentials for one prefix", self._objects.vend),
            ("create a table: PyIceberg uses vended credentials", lambda: self._tables().write()),
            ("evolve the schema, delete rows, read an earlier snapshot", lambda: self._tables().evolve()),
            ("plan a scan on the server", lambda: self._tables().plan()),
            ("neglect a table: small files, deletes, files of a crashed writer", self._neglect),
            (
                "attach maintenance policies: the scheduler plans tasks",
                lambda: self._maintenance().attach(),
            ),
            ("run the tasks: the server starts a Spark worker", lambda: self._maintenance().work()),
            ("auto-ingest: a bucket rule starts a job for arriving files", self._files_arrive),
            ("Spark adds the files to a table, each once", lambda: self._ingest().work()),
            ("count the events: one for every change", self._events),
        ]
        screen.print("[bold]Lakebed demo[/bold]")
        for number, (title, step) in enumerate(steps, 1):
            with screen.status(title) as status:
                self._show = _progress(status, title)
                started = time.monotonic()
                result = step()
                took = time.monotonic() - started
            screen.print(f" {number}. {title} [dim]({took:.2f} s)[/dim]", highlight=False)
            for line in result.splitlines():
                screen.print(f"    {line}", highlight=False, markup=False)
        screen.print(
            f"\nThe data is in {self._server.data}. Start it again with:\n"
            f"  lakebed serve --data {self._server.data} --streams-listen 127.0.0.1:9123\n"
            f"  lakebed credentials --data {self._server.data}",
            highlight=False,
        )

    def stop(self) -> None:
        """Stop the server and close the clients."""
        for part in (self._made_streams, self._made_maintenance, self._made_ingest):
            if part is not None:
                part.close()
        self._server.stop()

    # -- steps ----------------------------------------------------------------------------------------------------

    def _write_streams(self) -> str:
        # Imported late: `lakebed demo --help` loads without the libraries of streams.
        from .streams import StreamDemo

        server = self._server
        self._made_tables = TableDemo(server.endpoint, server.keys, server.client())
        self._made_tables.open()
        self._made_streams = StreamDemo(
            server.endpoint,
            server.streams_address,
            server.keys,
            BUCKET,
            self._made_tables.catalog,
            lambda text: self._show(text),
        )
        return self._made_streams.write()

    def _crash(self) -> str:
        last = self._objects.put_last()
        self._server.kill()
        self._server.start("--set", f"streams.warehouse={BUCKET}")
        return f"{self._objects.count(last)}\n{self._streams().count()}"

    def _neglect(self) -> str:
        server = self._server
        self._made_maintenance = MaintenanceDemo(
            server.endpoint,
            server.keys,
            BUCKET,
            server.client(),
            self._tables().catalog,
            lambda text: self._show(text),
        )
        return self._made_maintenance.neglect()

    def _files_arrive(self) -> str:
        server = self._server
        self._made_ingest = IngestDemo(
            server.endpoint,
            server.keys,
            BUCKET,
            server.client(),
            self._tables().catalog,
            lambda text: self._show(text),
        )
        return self._made_ingest.arrive()

    def _streams(self) -> StreamDemo:
        assert self._made_streams is not None  # noqa: S101  # made by an earlier step
        return self._made_streams

    def _tables(self) -> TableDemo:
        assert self._made_tables is not None  # noqa: S101  # made by an earlier step
        return self._made_tables

    def _maintenance(self) -> MaintenanceDemo:
        assert self._made_maintenance is not None  # noqa: S101  # made by an earlier step
        return self._made_maintenance

    def _ingest(self) -> IngestDemo:
        assert self._made_ingest is not None  # noqa: S101  # made by an earlier step
        return self._made_ingest

    def _events(self) -> str:
        self.stop()
        from lakebed.meta.outbox import Outbox
        from lakebed.meta.sqlite.store import SqliteStore

        async def count() -> dict[str, int]:
            store = await SqliteStore.open(self._server.data / "meta.db")
            try:
                kinds: dict[str, int] = {}
                for entry in await Outbox(store).read_after(store, 0, 10_000):
                    kinds[entry.event.kind] = kinds.get(entry.event.kind, 0) + 1
                return kinds
            finally:
                await store.close()

        kinds = asyncio.run(count())
        return ", ".join(f"{name} × {number}" for name, number in sorted(kinds.items()))


def _progress(status: Status, title: str) -> Callable[[str], None]:
    return lambda text: status.update(f"{title} [dim]({text})[/dim]")
