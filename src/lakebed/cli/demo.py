"""`lakebed demo`: starts a server in a folder of its own, uses it as real clients do, and tells what happened."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.errors import Unavailable
from lakebed.core.extras import require_extra

from .demo_ingest import IngestDemo
from .demo_tables import BUCKET, TableDemo
from .demo_upkeep import UpkeepDemo
from .output import console

if TYPE_CHECKING:
    from rich.status import Status

    from .demo_streams import StreamDemo

_FOLDER: Final = ".demo"
_BIG_BYTES: Final = 64 * 1024 * 1024
_START_SECONDS: Final = 30.0
_DEBOUNCE: Final = "1s"


def configure(parser: argparse.ArgumentParser) -> None:
    """Where the demo works."""
    parser.add_argument("--folder", type=Path, default=Path(_FOLDER), help="where its data goes; made anew each time")


def run(arguments: argparse.Namespace) -> int:
    """Show the product working end to end."""
    require_extra("demo", "the demo")
    demo = _Demo(arguments.folder)
    # Whoever ends it ends the server too, which is in a session of its own.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        demo.play()
    finally:
        demo.stop()
    return 0


@dataclass
class _Demo:
    folder: Path
    port: int = 0
    streams_port: int = 0
    process: subprocess.Popen[bytes] | None = None
    keys: dict[str, str] = field(default_factory=dict)
    tables: TableDemo | None = None
    streams: StreamDemo | None = None
    upkeep: UpkeepDemo | None = None
    ingest: IngestDemo | None = None
    tell: Callable[[str], None] = lambda text: None
    """Told how far a long step is; shown on a terminal."""

    def play(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.port, self.streams_port = _free_port(), _free_port()
        steps: list[tuple[str, Callable[[], str]]] = [
            ("start a server: one process tree, one folder", self._start),
            ("make a table bucket and stream tables, write records with pyfluss", self._stream),
            ("make a versioned bucket, write and list objects", self._objects),
            ("fence: 8 writers create one key, one wins", self._fence),
            ("upload 64 MiB in parts, read it back", self._multipart),
            ("kill -9 the whole server, start it again", self._crash),
            ("the streams are to be in the lake: the server has Spark tier them", lambda: self._streams().tier()),
            ("change rows by their keys: Spark merges what changed", lambda: self._streams().merge()),
            ("encrypt at rest", self._encrypt),
            ("hand out keys for one prefix only", self._vend),
            ("make a table: PyIceberg has no keys but those the catalog hands out", lambda: self._tables().write()),
            ("evolve the table, travel back", lambda: self._tables().evolve()),
            ("let the server plan a scan", lambda: self._tables().plan()),
            ("leave a table to itself: small files, deletes, a writer that crashed", self._make_untidy),
            ("attach policies to its namespace: the event wakes the scheduler", lambda: self._upkeep().attach()),
            ("Spark sees to it: the server starts a worker by itself", lambda: self._upkeep().work()),
            ("files arrive in a bucket: a rule of it starts a job", self._files_arrive),
            ("Spark adds them to a table, once each", lambda: self._ingest().work()),
            ("every change left its event", self._events),
        ]
        screen = console()
        screen.print("[bold]Lakebed demo[/bold]")
        for number, (title, step) in enumerate(steps, 1):
            with screen.status(title) as status:
                self.tell = _telling(status, title)
                started = time.monotonic()
                told = step()
                took = time.monotonic() - started
            screen.print(f" {number}. {title} [dim]({took:.2f} s)[/dim]", highlight=False)
            for line in told.splitlines():
                screen.print(f"    {line}", highlight=False, markup=False)
        screen.print(
            f"\nIts data is in {self.folder}/data. Start it again with:\n"
            f"  lakebed serve --data {self.folder}/data --streams-listen 127.0.0.1:9123\n"
            f"  lakebed credentials --data {self.folder}/data",
            highlight=False,
        )

    def stop(self) -> None:
        for part in (self.streams, self.upkeep, self.ingest):
            if part is not None:
                part.close()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=30)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _start(self, *flags: str) -> str:
        started = time.monotonic()
        log = self.folder / "server.log"
        data = self.folder / "data"
        with log.open("ab") as output, _undisturbed():
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "lakebed", "serve"),
                    *("--data", str(data), "--listen", f"127.0.0.1:{self.port}"),
                    *("--streams-listen", f"127.0.0.1:{self.streams_port}"),
                    # Not ten seconds, as one would have it: somebody waits.
                    *("--set", f"pipeline.debounce={_DEBOUNCE}"),
                    *flags,
                ],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._wait_until_ready(log)
        ready = time.monotonic() - started
        secrets = json.loads((data / "secrets.json").read_text())
        self.keys = {
            "aws_access_key_id": secrets["root_access_key"],
            "aws_secret_access_key": secrets["root_secret_key"],
        }
        return f"ready in {ready:.2f} s at http://127.0.0.1:{self.port}; first-start keys in {data}/secrets.json"

    def _wait_until_ready(self, log: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=1):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.02)
        raise Unavailable(f"the server did not start; see {log}")

    def _objects(self) -> str:
        s3 = self._client()
        s3.create_bucket(Bucket="lake")
        s3.put_bucket_versioning(Bucket="lake", VersioningConfiguration={"Status": "Enabled"})
        for number in range(200):
            s3.put_object(Bucket="lake", Key=f"raw/day={number % 4}/part-{number:04d}.json", Body=b"{}" * 100)
        page = s3.list_objects_v2(Bucket="lake", Prefix="raw/", Delimiter="/")
        folders = [prefix["Prefix"] for prefix in page["CommonPrefixes"]]
        return f"200 objects under {', '.join(folders)}"

    def _fence(self) -> str:
        s3 = self._client()

        def attempt(number: int) -> str:
            try:
                s3.put_object(Bucket="lake", Key="leases/writer", Body=b"%d" % number, IfNoneMatch="*")
            except s3.exceptions.ClientError as error:
                return str(error.response["Error"]["Code"])
            return "won"

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(attempt, range(8)))
        body = s3.get_object(Bucket="lake", Key="leases/writer")["Body"].read()
        return (
            f"{outcomes.count('won')} won, {outcomes.count('PreconditionFailed')} were refused with 412;"
            f" the lease holds writer {body.decode()}"
        )

    def _multipart(self) -> str:
        s3 = self._client()
        body = os.urandom(1024 * 1024) * (_BIG_BYTES // (1024 * 1024))
        source = self.folder / "big.bin"
        source.write_bytes(body)
        started = time.monotonic()
        s3.upload_file(str(source), "lake", "big.bin")
        up = time.monotonic() - started
        started = time.monotonic()
        s3.download_file("lake", "big.bin", str(source))
        down = time.monotonic() - started
        same = hashlib.sha256(source.read_bytes()).digest() == hashlib.sha256(body).digest()
        source.unlink()
        if not same:
            raise Unavailable("the bytes came back changed")
        mib = _BIG_BYTES / 1024 / 1024
        return f"up {mib / up:,.0f} MiB/s, down {mib / down:,.0f} MiB/s (boto3), SHA-256 equal"

    def _crash(self) -> str:
        s3 = self._client()
        last = s3.put_object(Bucket="lake", Key="after-this", Body=b"the lights go out")["ETag"]
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._start("--set", f"streams.warehouse={BUCKET}")
        s3 = self._client()
        found = s3.head_object(Bucket="lake", Key="after-this")["ETag"]
        count = sum(
            len(page.get("Contents", [])) for page in s3.get_paginator("list_objects_v2").paginate(Bucket="lake")
        )
        return (
            f"{count} objects are there, the last acknowledged one too: {'yes' if found == last else 'NO'}\n"
            + self._streams().count()
        )

    def _encrypt(self) -> str:
        s3 = self._client()
        secret = b"not for the disk to know " * 8000
        s3.put_object(Bucket="lake", Key="sealed", Body=secret, ServerSideEncryption="AES256")
        back = s3.get_object(Bucket="lake", Key="sealed")["Body"].read() == secret
        stored = [path for path in (self.folder / "data").rglob("*") if path.is_file()]
        leaked = sum(secret[:64] in path.read_bytes() for path in stored)
        return f"read back: {'yes' if back else 'NO'}; {leaked} of {len(stored)} files on disk hold its text"

    def _vend(self) -> str:
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/raw/day=1/*"},
            ],
        }
        sts = self._client("sts")
        issued = sts.assume_role(
            RoleArn="arn:aws:iam::000000000000:role/reader", RoleSessionName="demo", Policy=json.dumps(policy)
        )["Credentials"]
        limited = _boto3().client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id=issued["AccessKeyId"],
            aws_secret_access_key=issued["SecretAccessKey"],
            aws_session_token=issued["SessionToken"],
        )
        limited.get_object(Bucket="lake", Key="raw/day=1/part-0001.json")
        try:
            limited.get_object(Bucket="lake", Key="raw/day=2/part-0002.json")
        except limited.exceptions.ClientError as error:
            return f"inside the prefix: read; outside: {error.response['Error']['Code']}"
        raise Unavailable("keys for one prefix opened another")

    def _stream(self) -> str:
        from .demo_streams import StreamDemo

        endpoint = f"http://127.0.0.1:{self.port}"
        self.tables = TableDemo(endpoint, self.keys, self._client())
        self.tables.open()
        self.streams = StreamDemo(
            endpoint,
            f"127.0.0.1:{self.streams_port}",
            self.keys,
            BUCKET,
            self.tables.catalog,
            lambda text: self.tell(text),
        )
        return self.streams.write()

    def _streams(self) -> StreamDemo:
        assert self.streams is not None  # noqa: S101  # the step before has made it
        return self.streams

    def _tables(self) -> TableDemo:
        assert self.tables is not None  # noqa: S101  # the step before has made it
        return self.tables

    def _make_untidy(self) -> str:
        catalog = self._tables().catalog
        self.upkeep = UpkeepDemo(
            f"http://127.0.0.1:{self.port}", self.keys, BUCKET, self._client(), catalog, lambda text: self.tell(text)
        )
        return self.upkeep.make_untidy()

    def _upkeep(self) -> UpkeepDemo:
        assert self.upkeep is not None  # noqa: S101  # the step before has made it
        return self.upkeep

    def _files_arrive(self) -> str:
        catalog = self._tables().catalog
        self.ingest = IngestDemo(
            f"http://127.0.0.1:{self.port}", self.keys, BUCKET, self._client(), catalog, lambda text: self.tell(text)
        )
        return self.ingest.arrive()

    def _ingest(self) -> IngestDemo:
        assert self.ingest is not None  # noqa: S101  # the step before has made it
        return self.ingest

    def _events(self) -> str:
        self.stop()
        import asyncio

        from lakebed.meta.outbox import Outbox
        from lakebed.meta.sqlite import SqliteStore

        async def count() -> dict[str, int]:
            store = await SqliteStore.open(self.folder / "data" / "meta.db")
            try:
                kinds: dict[str, int] = {}
                for entry in await Outbox(store).read_after(store, 0, 10_000):
                    kinds[entry.event.kind] = kinds.get(entry.event.kind, 0) + 1
                return kinds
            finally:
                await store.close()

        kinds = asyncio.run(count())
        return ", ".join(f"{name} × {number}" for name, number in sorted(kinds.items()))

    def _client(self, service: str = "s3") -> Any:  # Any: boto3 makes its clients at run time
        return _boto3().client(
            service, endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1", **self.keys
        )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Who ends the demo meanwhile ends it right after: nobody would know of a server that is being started."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for late in came:
        signal.raise_signal(late)


def _telling(status: Status, title: str) -> Callable[[str], None]:
    return lambda text: status.update(f"{title} [dim]({text})[/dim]")


def _boto3() -> Any:  # Any: boto3 has no types
    import boto3

    return boto3


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
