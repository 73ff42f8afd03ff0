"""Several servers on one metadata store: without the same master keys, only the first one starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lakebed.server.stores.identity import SECRETS_FILE
from tests.clients.boto import connected
from tests.fixtures.server import RunningServer, launch_server, wait_until_ready

from .running_processes import GUARD_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.slow]


IN_FOLDER = ""
"""No database: the metadata is in the data folder (SQLite)."""


def launch(data: Path, dsn: str, config: Path | None = None) -> RunningServer:
    """Start a server on this database without waiting for it."""
    flags = () if config is None else ("--config", str(config))
    return launch_server(data, *flags, environment={"LAKEBED_META__URL": dsn})


@contextmanager
def serving(data: Path, dsn: str, config: Path | None = None) -> Iterator[RunningServer]:
    """Run a server on this database."""
    server = launch(data, dsn, config)
    try:
        wait_until_ready(server)
        yield server
    finally:
        end(server)


def end(server: RunningServer) -> None:
    if server.process.poll() is None:
        server.kill()


def complaint(server: RunningServer) -> str:
    """The error line of a server that did not start."""
    assert server.process.wait(timeout=GUARD_SECONDS) == 2, server.log_text()
    said = server.log_text()
    assert "Traceback" not in said, said
    line = said.splitlines()[-1]
    assert line.startswith("lakebed: ")
    return line


def generated_key(data: Path) -> tuple[str, str]:
    """Id and key that a server generated."""
    stored = json.loads((data / SECRETS_FILE).read_text())
    return stored["master_key_id"], stored["master_key"]


def settings_file(path: Path, active: str, **keys: str) -> Path:
    """A settings file with these master keys."""
    entries = "".join(f'"{key_id}" = "{key}"\n' for key_id, key in keys.items())
    path.write_text(f'[encryption]\nactive = "{active}"\n[encryption.keys]\n{entries}')
    return path


def put_and_get(writer: RunningServer, reader: RunningServer, key: str) -> None:
    """Write through one server and read through the other."""
    with connected(writer) as one, connected(reader) as other:
        one.put_object(Bucket="shared", Key=key, Body=key.encode(), ServerSideEncryption="AES256")
        assert other.get_object(Bucket="shared", Key=key)["Body"].read() == key.encode()


def test_second_server_is_refused_until_it_has_the_key_of_the_first(tmp_path: Path, postgres_dsn: str) -> None:
    with serving(tmp_path / "one", postgres_dsn) as first:
        with connected(first) as s3:
            s3.create_bucket(Bucket="shared")
        key_id, key = generated_key(first.data)
        line = complaint(launch(tmp_path / "two", postgres_dsn))
        assert line.startswith("lakebed: encryption.keys: ")
        assert "set encryption.keys to the same keys on every server" in line
        assert f"missing={key_id}" in line
        assert key not in line
        given = settings_file(tmp_path / "two.toml", key_id, **{key_id: key})
        with serving(tmp_path / "two", postgres_dsn, given) as second:
            put_and_get(first, second, "made at the first")
            put_and_get(second, first, "made at the second")
    # The first server is unaffected.
    with serving(tmp_path / "one", postgres_dsn) as first:
        put_and_get(first, first, "made after all")


def test_concurrent_first_starts_let_one_server_serve_and_refuse_the_other(tmp_path: Path, postgres_dsn: str) -> None:
    with ExitStack() as ends:
        servers = [launch(tmp_path / name, postgres_dsn) for name in ("one", "two")]
        for server in servers:
            ends.callback(end, server)
        deadline = time.monotonic() + GUARD_SECONDS
        while all(server.process.poll() is None for server in servers):
            assert time.monotonic() < deadline, "both keep running"
            time.sleep(0.01)
        (refused,) = [server for server in servers if server.process.poll() is not None]
        (winner,) = [server for server in servers if server is not refused]
        wait_until_ready(winner)
        key_id, _ = generated_key(winner.data)
        assert f"missing={key_id}" in complaint(refused)


def test_new_key_is_rolled_out_to_all_servers_before_it_becomes_active(tmp_path: Path, postgres_dsn: str) -> None:
    old, new = "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb28=", "bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
    only_old = settings_file(tmp_path / "old.toml", "old", old=old)
    before = settings_file(tmp_path / "before.toml", "old", old=old, new=new)
    after = settings_file(tmp_path / "after.toml", "new", old=old, new=new)
    with serving(tmp_path / "one", postgres_dsn, only_old) as one:
        with connected(one) as s3:
            s3.create_bucket(Bucket="shared")
        put_and_get(one, one, "sealed with old")
    with (
        serving(tmp_path / "one", postgres_dsn, after) as one,
        serving(tmp_path / "two", postgres_dsn, before) as two,
    ):
        put_and_get(one, two, "sealed with new")
        put_and_get(two, one, "still sealed with old")
        with connected(two) as s3:
            assert s3.get_object(Bucket="shared", Key="sealed with old")["Body"].read() == b"sealed with old"
    assert "missing=new" in complaint(launch(tmp_path / "one", postgres_dsn, only_old))
    mistyped = settings_file(tmp_path / "mistyped.toml", "new", old=new, new=new)
    line = complaint(launch(tmp_path / "one", postgres_dsn, mistyped))
    assert line.startswith("lakebed: encryption.keys.old: stored data was encrypted with another key of this id")


def test_server_keeps_its_generated_key_and_another_key_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "data", IN_FOLDER) as first:
        key_id, key = generated_key(first.data)
        with connected(first) as s3:
            s3.create_bucket(Bucket="shared")
        put_and_get(first, first, "made before")
    other = settings_file(tmp_path / "other.toml", key_id, **{key_id: "b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyMTE="})
    line = complaint(launch(tmp_path / "data", IN_FOLDER, other))
    assert line.startswith(f"lakebed: encryption.keys.{key_id}: stored data was encrypted with another key of this id")
    assert key not in line
    with serving(tmp_path / "data", IN_FOLDER) as again:
        put_and_get(again, again, "made after all")
        with connected(again) as s3:
            assert s3.get_object(Bucket="shared", Key="made before")["Body"].read() == b"made before"
