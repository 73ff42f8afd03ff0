"""Eight writers on one table: every acknowledged append is stored once, and nothing else is."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.fixtures.server import RunningServer, running_server

from .appends import SCHEMA, Head, current_snapshot, head_of, manifest_list_of, prepare_append
from .wire import Call, Wire, table_path, tables_path

WRITERS: Final = 8
_PATH: Final = table_path("ns", "t")


class Writer:
    """Appends until its time is over, and retries after conflicts."""

    def __init__(self, number: int) -> None:
        self.name = f"w{number}"
        self.snapshots: list[int] = []
        """Snapshots of acknowledged appends."""
        self.conflicts = 0
        self._random = Random(number)

    def work(self, server: RunningServer, until: float) -> None:
        wire = Wire(server.port)
        try:
            while time.monotonic() < until:
                self._append(wire)
        finally:
            wire.close()

    def _append(self, wire: Wire) -> None:
        snapshot = self._random.getrandbits(62)
        attempt = 0
        while True:
            append = prepare_append(_head(wire), snapshot, writer=self.name, attempt=attempt)
            wire.put_files(append.files)
            reply = wire.call(Call("POST", _PATH, {"requirements": append.requirements, "updates": append.updates}))
            if reply.status == 200:
                self.snapshots.append(snapshot)
                return
            assert (reply.status, reply.kind) == (409, "CommitFailedException"), reply
            self.conflicts += 1
            attempt += 1


def _head(wire: Wire) -> Head:
    loaded = wire.load("ns", "t")
    assert loaded is not None
    listing = manifest_list_of(loaded["metadata"])
    return head_of(loaded["metadata"], None if listing is None else wire.get_file(listing))


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.heavy)])
def test_rows_are_those_of_the_acknowledged_appends(seconds: int, tmp_path: Path) -> None:
    writers = [Writer(number) for number in range(WRITERS)]
    with running_server(tmp_path / "data") as server:
        wire = Wire(server.port)
        wire.make_lake("ns")
        assert wire.request("POST", tables_path("ns"), {"name": "t", "schema": SCHEMA}).status == 200
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(WRITERS) as threads:
            for working in [threads.submit(writer.work, server, until) for writer in writers]:
                working.result()
        loaded = wire.load("ns", "t")
        assert loaded is not None
        metadata = loaded["metadata"]
        head = _head(wire)
        wire.close()
        assert "Traceback" not in server.log_text()
    acknowledged = [snapshot for writer in writers for snapshot in writer.snapshots]
    print(
        f"seconds={seconds} writers={WRITERS} acknowledged={len(acknowledged)}"
        f" conflicts={sum(writer.conflicts for writer in writers)} rows={head.rows}"
    )
    assert all(writer.snapshots for writer in writers)
    # Follow the parents from the newest snapshot: every append is an ancestor of all later ones.
    by_id = {one["snapshot-id"]: one for one in metadata["snapshots"]}
    reached, at = [], current_snapshot(metadata)
    while at is not None:
        reached.append(at["snapshot-id"])
        at = by_id.get(at.get("parent-snapshot-id"))
    assert sorted(reached) == sorted(acknowledged)
    assert len(by_id) == len(acknowledged)
    assert head.rows == len(acknowledged) == len(head.manifests)
    assert {line.added_snapshot_id for line in head.manifests} == set(acknowledged)
    assert metadata["last-sequence-number"] == len(acknowledged)
