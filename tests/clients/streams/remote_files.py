"""An object store that stream clients read directly: a Lakebed server with STS, used by another server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow

import fluss
from tests.clients.boto import connected as s3_connected
from tests.clients.streams.serving import StreamServer, connected, make_table, start_streams
from tests.clients.users import User, administer, make_user, user_with_actions
from tests.fixtures.server import RunningServer, start_server

BUCKET: Final = "bytes"
PREFIX: Final = "lake"
ADDRESS: Final = f"streams.remote_address=s3://{BUCKET}/{PREFIX}"
TABLE: Final = "events"
SCHEMA: Final = pyarrow.schema([("id", pyarrow.int32()), ("name", pyarrow.string())])
OLD_ROWS: Final = 20_000
ROWS: Final = OLD_ROWS + 100
"""The first `OLD_ROWS` are only in the object store, the others on the server's disk."""

_BATCH_ROWS: Final = 1_000


class Read(NamedTuple):
    """A read request in the access log of the object store."""

    principal: str
    method: str
    path: str
    status: int


@dataclass(frozen=True)
class FileStore:
    """The object store, and the user whose access key the stream server uses."""

    server: RunningServer
    owner: User

    @property
    def role(self) -> str:
        """A role that the owner can assume."""
        return f"arn:aws:iam::{self.owner.arn.split(':')[4]}:role/streams"

    def flags(self, *more: str) -> list[str]:
        """Flags of a server that stores its data there."""
        values = {
            "storage.kind": "s3",
            "storage.s3.bucket": BUCKET,
            "storage.s3.prefix": PREFIX,
            "storage.s3.endpoint": self.server.endpoint,
            "storage.s3.allow_http": "true",
            "storage.s3.access_key_id": self.owner.keys.access_key,
            "streams.segment": "64KiB",
        }
        return [f"--set={name}={value}" for name, value in values.items()] + [f"--set={each}" for each in more]

    @property
    def environment(self) -> dict[str, str]:
        """The secret settings of such a server."""
        return {"LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": self.owner.keys.secret_key}

    def reads(self) -> list[Read]:
        """All reads of segments and snapshots so far, in order."""
        entries = [json.loads(line) for line in self.server.log_text().splitlines() if '"lakebed.access"' in line]
        found = [Read(it["principal"], it["method"], it["target"].partition("?")[0], it["status"]) for it in entries]
        return [it for it in found if it.method in ("GET", "HEAD") and f"/{BUCKET}/{PREFIX}/streams/" in it.path]


@contextmanager
def file_store(folder: Path) -> Iterator[FileStore]:
    """Run an object store with the bucket."""
    server = start_server(folder / "store", "--set", "log.access=true", workers=1)
    try:
        with s3_connected(server) as s3:
            s3.create_bucket(Bucket=BUCKET)
        yield FileStore(server, user_with_actions(server, folder, "s3:*", "sts:AssumeRole"))
    finally:
        server.kill()


@contextmanager
def serving_from(store: FileStore, data: Path, *settings: str) -> Iterator[StreamServer]:
    """Run a stream server that stores its data there."""
    started = start_streams(data, *store.flags(*settings), environment=store.environment)
    try:
        yield started
    finally:
        if started.server.process.poll() is None:
            started.server.kill()


async def fill(store: FileStore, data: Path, *others: str) -> None:
    """Create tables in a data folder, with old rows only in the object store, as after a failover."""
    with serving_from(store, data, "streams.upload_on_stop=true") as started:
        async with connected(started) as connection:
            for name in (TABLE, *others):
                table = await make_table(
                    connection,
                    fluss.TablePath("fluss", name),
                    SCHEMA,
                    bucket_count=1,
                    properties={"table.log.arrow.compression.type": "NONE"},
                )
                async with table.new_append().create_writer() as writer:
                    for start in range(0, OLD_ROWS, _BATCH_ROWS):
                        writer.write_arrow_batch(rows(range(start, start + _BATCH_ROWS)))
                        await writer.flush()
        assert started.server.stop() == 0
    shutil.rmtree(data / "streams" / "logs")
    with serving_from(store, data) as started:
        async with connected(started) as connection:
            table = await connection.get_table(fluss.TablePath("fluss", TABLE))
            async with table.new_append().create_writer() as writer:
                writer.write_arrow_batch(rows(range(OLD_ROWS, ROWS)))


def forbid_lasting_keys(store: FileStore) -> None:
    """Deny reads of segments with long-term access keys; temporary credentials are required."""
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/*.log",
        "Condition": {"Null": {"aws:TokenIssueTime": "true"}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    with s3_connected(store.server) as s3:
        s3.put_bucket_policy(Bucket=BUCKET, Policy=document)


def rows(numbers: Sequence[int]) -> pyarrow.RecordBatch:
    """Rows of about 100 bytes."""
    names = [f"{number:0100d}" for number in numbers]
    return pyarrow.record_batch([pyarrow.array(numbers, pyarrow.int32()), pyarrow.array(names)], schema=SCHEMA)


def reader_of(streams: StreamServer, folder: Path, *tables: str) -> User:
    """Create a user that may only read these tables of the database `fluss`."""
    made = make_user(streams.server)
    statement = {
        "Effect": "Allow",
        "Action": ["streams:Read", "streams:Describe"],
        "Resource": [f"arn:aws:lakebed:::streams/fluss/{name}" for name in tables],
    }
    file = folder / f"{made.name}.json"
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    administer(streams.server, "policy", "put", made.name, "own", str(file))
    return made
