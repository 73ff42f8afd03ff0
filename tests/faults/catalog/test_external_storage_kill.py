"""Kill -9 of the server during commits on external storage: no acknowledged commit is lost, no pointer dangles.

Writers append to tables of their own and to a shared one. The server writes each metadata file to MinIO before it moves
the pointer; a kill in between leaves a file that no pointer names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException

from tests.clients.iceberg.external_lake import ExternalLake, running_external_lake, settings_file
from tests.clients.iceberg.lake import Lake
from tests.faults.killing import SEED
from tests.fixtures.server import start_server

pytestmark = [pytest.mark.slow, pytest.mark.integration]

SCHEMA = pa.schema([("id", pa.int64())])
WRITERS = 3
SHARED = "shared"


@dataclass
class Writer:
    """Appends rows with unique ids to its own table and to the shared one, and records the outcome of each."""

    number: int
    acknowledged: dict[str, set[int]] = field(default_factory=dict)
    refused: dict[str, set[int]] = field(default_factory=dict)
    unknown: dict[str, set[int]] = field(default_factory=dict)
    next_id: int = 0

    @property
    def tables(self) -> tuple[str, ...]:
        return f"own{self.number}", SHARED

    def append(self, catalog: RestCatalog) -> None:
        """Append one row to each table."""
        for name in self.tables:
            self.next_id += 1
            row = self.number * 1_000_000 + self.next_id
            rows = pa.table({"id": pa.array([row], pa.int64())})
            table = catalog.load_table(f"ns.{name}")
            try:
                table.append(rows)
                outcome = self.acknowledged
            except CommitFailedException:
                # A conflict is reported only if nothing was committed.
                outcome = self.refused
            except Exception:
                outcome = self.unknown
            outcome.setdefault(name, set()).add(row)

    def work(self, lake: Lake, stop: threading.Event) -> None:
        """Append until `stop` is set."""
        while not stop.is_set():
            with suppress(Exception), lake.catalog() as catalog:
                while not stop.is_set():
                    self.append(catalog)
            time.sleep(0.05)


@contextmanager
def writing(writers: list[Writer], lake: Lake) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=writer.work, args=(lake, stop)) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def verify(external: ExternalLake, lake: Lake, bucket: str, writers: list[Writer]) -> str:
    """Compare every table with what its writers recorded; a summary."""
    stored = set(external.keys_in(bucket, "wh/"))
    counts = dict.fromkeys(("acknowledged", "unanswered_done", "unanswered_undone", "conflicts"), 0)
    with lake.catalog() as catalog:
        for name in sorted({name for writer in writers for name in writer.tables}):
            table = catalog.load_table(f"ns.{name}")
            assert table.metadata_location.partition(f"{bucket}/")[2] in stored, f"dangling pointer of {name}"
            found = table.scan().to_arrow()["id"].to_pylist()
            rows = set(found)
            assert len(found) == len(rows), f"repeated rows in {name}"
            recorded = [
                set().union(*(outcome.get(name, set()) for outcome in outcomes))
                for outcomes in zip(*((each.acknowledged, each.refused, each.unknown) for each in writers), strict=True)
            ]
            acknowledged, refused, unknown = recorded
            assert acknowledged <= rows, f"lost from {name}: {acknowledged - rows}"
            assert not refused & rows, f"refused and committed in {name}: {refused & rows}"
            assert rows <= acknowledged | unknown
            counts["acknowledged"] += len(acknowledged)
            counts["conflicts"] += len(refused)
            counts["unanswered_done"] += len(unknown & rows)
            counts["unanswered_undone"] += len(unknown - rows)
    return " ".join(f"{name}={count}" for name, count in counts.items())


@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.heavy)])
def test_kills_lose_no_commit_on_external_storage(kills: int, tmp_path: Path) -> None:
    random = Random(SEED)
    with running_external_lake(tmp_path) as external:
        bucket = external.minio.make_bucket()
        lake = external.create_catalog("ext", bucket)
        writers = [Writer(number) for number in range(1, WRITERS + 1)]
        with lake.catalog() as catalog:
            catalog.create_namespace("ns")
            for name in sorted({name for writer in writers for name in writer.tables}):
                catalog.create_table(f"ns.{name}", schema=SCHEMA, properties={"commit.retry.num-retries": "1"})
        port = external.server.port
        with writing(writers, lake):
            for _ in range(kills):
                time.sleep(random.uniform(0.1, 1.2))
                external.server.kill()
                external.server = start_server(
                    external.server.data, "--config", str(settings_file(tmp_path, external.minio)), port=port
                )
        summary = verify(external, lake, bucket, writers)
        print(f"kills={kills} {summary} lost=0 dangling=0 seed={SEED}")
        log = external.server.log_text()
    assert all(writer.acknowledged for writer in writers)
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
