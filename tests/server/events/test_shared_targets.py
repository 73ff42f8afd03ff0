"""Several targets, of one or two deployments, on one honker file."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from lakebed.client import LakebedClient
from tests.client.conftest import access_to
from tests.fixtures.brokers.honker import have_honker
from tests.fixtures.server import RunningServer, running_server

from ..running_processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BUCKETS = [f"bucket-{number}" for number in range(6)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    have_honker()
    folder = tmp_path / "honker"
    folder.mkdir()
    return folder / "events.db"


def server_on(data: Path) -> AbstractContextManager[RunningServer]:
    """A server that can import honker from the test cache."""
    found = find_spec("honker")
    assert found is not None
    assert found.origin is not None
    path = [str(Path(found.origin).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return running_server(data, workers=1, PYTHONPATH=os.pathsep.join(path))


def streamed(file: Path, stream: str) -> list[str]:
    """The subjects of the events in a stream of the file, in order."""
    import honker

    database = honker.open(str(file))
    try:
        statement = (
            "SELECT json_extract(payload, '$.subject') AS subject FROM _honker_stream WHERE topic = ? ORDER BY offset"
        )
        return [row["subject"] for row in database.query(statement, [stream])]
    finally:
        database.close()


def put_target(client: LakebedClient, file: Path, name: str) -> None:
    client.targets.put("honker", name, {"path": str(file), "name": name}, kinds=["BucketCreated"])


def wait_until_delivered(client: LakebedClient, *names: str) -> None:
    last = client.events.read(limit=0).last_seq

    def is_done() -> bool:
        found = [client.targets.get("honker", name) for name in names]
        return all((one.after or 0) >= last and not one.waiting and not one.dead for one in found)

    wait_until(is_done, "all events are delivered")


def test_two_targets_on_one_file_each_receive_every_event(tmp_path: Path, file: Path) -> None:
    with server_on(tmp_path / "data") as server, LakebedClient(access=access_to(server)) as client:
        for name in ("one", "two"):
            put_target(client, file, name)
        for bucket in BUCKETS:
            client._connection.call("PUT", f"/{bucket}")
        wait_until_delivered(client, "one", "two")
        assert {name: streamed(file, name) for name in ("one", "two")} == {"one": BUCKETS, "two": BUCKETS}


def test_two_deployments_on_one_file_each_deliver_every_event(tmp_path: Path, file: Path) -> None:
    with ExitStack() as stack:
        clients = []
        for name in ("first", "second"):
            server = stack.enter_context(server_on(tmp_path / name))
            clients.append(stack.enter_context(LakebedClient(access=access_to(server))))
        for client in clients:
            # The same target name and event numbers in both deployments.
            put_target(client, file, "shared")
            for bucket in BUCKETS:
                client._connection.call("PUT", f"/{bucket}")
        for client in clients:
            wait_until_delivered(client, "shared")
        assert sorted(streamed(file, "shared")) == sorted([*BUCKETS, *BUCKETS])
