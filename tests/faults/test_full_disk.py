"""A full disk: writes fail with an S3 error, reads continue, no write is partial, and free space ends the condition."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer, running_server

from .checks import PATIENCE_SECONDS, audit, compare_events, gather, make_buckets
from .client import Client
from .data_folder import metadata_of, miscounted_contents, read_blobs, read_changes, temporary_files
from .ledger import PLAIN, VERSIONED

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_DISK_BYTES: Final = 256 << 20
_FREE_BYTES: Final = 84 << 20
"""Free at the start: the reserve of the server, and about 20 MiB."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A small file system that other programs use too."""

    path: Path

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, bytes_left: int) -> None:
        """Fill the disk with a foreign file until `bytes_left` are free."""
        with (self.path / "foreign").open("ab") as file:
            while (missing := self.free_bytes - bytes_left) > 0:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, missing)
                except OSError:
                    missing //= 2
                    if missing < 4096:
                        return

    def free(self) -> None:
        """Remove the foreign file."""
        (self.path / "foreign").unlink()


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk of 256 MiB, most of it occupied."""
    path = tmp_path / "disk"
    path.mkdir()
    if request.param == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(path)]
    else:
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("needs mkfs.ext4 (Debian package e2fsprogs)")
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(_DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        command = ["mount", "-o", "loop", str(image), str(path)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs to mount a small file system, which is root's: {mounted.stderr.decode().strip()}")
    try:
        small = Disk(path)
        small.fill(_FREE_BYTES)
        yield small
    finally:
        # Detached now; released with the last descriptor of the killed server.
        subprocess.run(["umount", "-l", str(path)], check=True)


@dataclass(frozen=True, slots=True)
class Filled:
    """The objects of a server that was filled until it rejected a write."""

    signer: Signer
    kept: dict[str, bytes]
    refused: str


def _fill(server: RunningServer, size: int) -> Filled:
    """Put objects of this size until the first is rejected."""
    signer = Signer(f"127.0.0.1:{server.port}")
    kept: dict[str, bytes] = {}
    with Connection(server.port) as connection:
        for number in range(10_000):
            key, body = f"{number:05}", os.urandom(16) * (size // 16)
            response = connection.exchange(signer.request("PUT", f"/{PLAIN}/{key}", None, body))
            if response.status != 200:
                assert (response.status, response.code) == (507, "InsufficientStorage")
                assert response.document_request_id == response.request_id != ""
                return Filled(signer, kept, key)
            kept[key] = body
    raise AssertionError("the disk did not become full")


@pytest.mark.parametrize("size", [60_000, 1_000_000], ids=["inline", "blobs"])
def test_full_disk_rejects_writes_and_can_be_emptied(disk: Disk, size: int) -> None:
    with running_server(disk.path) as server:
        make_buckets(server)
        filled = _fill(server, size)
        with Connection(server.port) as connection:
            exchange, signer = connection.exchange, filled.signer
            assert len(filled.kept) > 5
            assert exchange(signer.request("GET", f"/{PLAIN}/{filled.refused}")).status == 404
            for key, body in filled.kept.items():
                assert exchange(signer.request("GET", f"/{PLAIN}/{key}")).body == body
            listed = exchange(signer.request("GET", f"/{PLAIN}?list-type=2")).body
            assert listed.count(b"<Key>") == len(filled.kept)
            assert exchange(signer.request("HEAD", f"/{PLAIN}"), is_head=True).status == 200
            assert not temporary_files(disk.path)
            for key in filled.kept:
                assert exchange(signer.request("DELETE", f"/{PLAIN}/{key}")).status == 204
        _wait_until_accepted(server, signer, size)


def _wait_until_accepted(server: RunningServer, signer: Signer, size: int) -> None:
    """Wait until space is available: blobs are removed and the WAL is reset with a delay."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    body = os.urandom(16) * (size // 16)
    while True:
        # The server does not read a rejected body, so the connection cannot be reused.
        with Connection(server.port) as connection:
            response = connection.exchange(signer.request("PUT", f"/{PLAIN}/accepted", None, body))
            if response.status == 200:
                assert connection.exchange(signer.request("GET", f"/{PLAIN}/accepted")).body == body
                return
        assert (response.status, response.code) == (507, "InsufficientStorage")
        assert time.monotonic() < deadline, "the emptied server accepts no objects"
        time.sleep(0.05)


def test_too_large_body_is_rejected_before_it_is_sent(disk: Disk) -> None:
    with running_server(disk.path) as server:
        make_buckets(server)
        signer = Signer(f"127.0.0.1:{server.port}")
        headers = {"content-length": str(1 << 30), "expect": "100-continue"}
        request = signer.request("PUT", f"/{PLAIN}/large", headers, payload_hash="UNSIGNED-PAYLOAD")
        with Connection(server.port) as connection:
            response = connection.exchange(request)
        assert (response.status, response.code) == (507, "InsufficientStorage")


async def test_disk_filled_by_another_program_loses_nothing_and_recovers(disk: Disk) -> None:
    """The disk is filled completely during writes of every kind, and freed again; twice."""
    random = Random(7)
    clients = [Client(f"c{number}", Random(random.getrandbits(64)), may_refuse=True) for number in range(4)]
    findings: list[str] = []

    def acknowledged() -> int:
        return sum(client.ledger.acknowledged for client in clients)

    def refused() -> int:
        return sum(client.refused for client in clients)

    with running_server(disk.path, "--set", "objects.orphan_window=5s") as server:
        make_buckets(server)
        for _ in range(2):
            stop = threading.Event()
            with ThreadPoolExecutor(len(clients)) as threads:
                working = [threads.submit(client.work, server, stop) for client in clients]
                try:
                    _wait_for_more(acknowledged)
                    disk.fill(0)
                    _wait_for_more(refused)
                    disk.free()
                    _wait_for_more(acknowledged)
                    disk.fill(_FREE_BYTES)
                finally:
                    stop.set()
            findings += gather(working)
            findings += audit(server, clients, everything=True)
        assert server.stop() == 0
    assert not findings
    async with metadata_of(disk.path) as store:
        assert not compare_events(await read_changes(store), clients)
        assert not await miscounted_contents(store)
        blobs = await read_blobs(store, disk.path)
    assert blobs.rows == blobs.referenced
    assert blobs.rows <= blobs.files
    log = server.log_text()
    assert "crashed" not in log, log[log.index("crashed") - 500 :][:4000]
    assert VERSIONED in {change.bucket for client in clients for change in client.ledger.journal}


def _wait_for_more(count: Callable[[], int]) -> None:
    """Wait for enough further requests to include every kind."""
    wanted = count() + 40
    deadline = time.monotonic() + PATIENCE_SECONDS
    while count() < wanted:
        assert time.monotonic() < deadline, "no further requests"
        time.sleep(0.01)
