"""The lock that allows one server per data folder."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.core.errors import InvalidSetting, StateConflict
from lakebed.server.stores.data_lock import LOCK_FILE, DataFolderLock
from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer, launch_server, running_server, start_server

from ..running_processes import ask, children_of, is_alive, wait_ended, wait_until
from ..test_several_servers import complaint, end

# -- the lock --------------------------------------------------------------------------------------------------------


def no_pause(seconds: float) -> None:
    raise AssertionError(f"waited for {seconds} s")


def test_second_server_is_refused_with_the_holder_of_the_lock(tmp_path: Path) -> None:
    with DataFolderLock.acquire(tmp_path, "127.0.0.1:9000", pause=no_pause):
        with pytest.raises(StateConflict) as refusal:
            DataFolderLock.acquire(tmp_path, "127.0.0.1:9001", patience_seconds=0)
        message = str(refusal.value)
        assert f"pid={os.getpid()} host={socket.gethostname()} listen=127.0.0.1:9000" in message
        assert f"folder={tmp_path}" in message
        assert "--data" in message
    DataFolderLock.acquire(tmp_path, "127.0.0.1:9001", pause=no_pause).close()


def test_lock_released_during_the_wait_is_acquired(tmp_path: Path) -> None:
    first = DataFolderLock.acquire(tmp_path, "127.0.0.1:9000")
    pauses: list[float] = []

    def free(seconds: float) -> None:
        pauses.append(seconds)
        first.close()

    DataFolderLock.acquire(tmp_path, "127.0.0.1:9001", pause=free).close()
    assert len(pauses) == 1


def test_lock_without_a_recorded_holder_still_excludes(tmp_path: Path) -> None:
    with (tmp_path / LOCK_FILE).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StateConflict, match="in use by another server"):
            DataFolderLock.acquire(tmp_path, "127.0.0.1:9000", patience_seconds=0)


def test_a_forked_child_that_closes_the_lock_does_not_release_it(tmp_path: Path) -> None:
    with DataFolderLock.acquire(tmp_path, "127.0.0.1:9000") as lock:
        pid = os.fork()
        if pid == 0:
            lock.close()
            os._exit(0)
        os.waitpid(pid, 0)
        with pytest.raises(StateConflict):
            DataFolderLock.acquire(tmp_path, "127.0.0.1:9001", patience_seconds=0)


def test_file_system_without_locks_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("lakebed.server.stores.data_lock.fcntl.flock", refuse)
    with pytest.raises(InvalidSetting, match="No locks available"):
        DataFolderLock.acquire(tmp_path, "127.0.0.1:9000")


@pytest.mark.parametrize("below", ["", "below/it"])
def test_file_in_place_of_the_folder_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InvalidSetting) as refused:
        DataFolderLock.acquire(file / below, "127.0.0.1:9000")
    assert str(refused.value) == (
        f"server.data: expected a folder, found a file; name another one with --data. path={file}"
    )


# -- on real servers -------------------------------------------------------------------------------------------------


def second_server(first: RunningServer, *flags: str) -> RunningServer:
    """Start another server on the same folder, with a separate log."""
    link = first.data.parent / "second"
    link.symlink_to(first.data, target_is_directory=True)
    return launch_server(link, *flags, environment=first.environment)


@pytest.mark.integration
@pytest.mark.slow
def test_a_second_server_on_a_data_folder_refuses_to_start(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as first:
        second = second_server(first)
        try:
            line = complaint(second)
        finally:
            end(second)
        assert "data folder is in use by another server" in line
        assert f"pid={first.process.pid} host={socket.gethostname()} listen=127.0.0.1:{first.port}" in line
        assert ask(first).status == 403


@pytest.mark.integration
@pytest.mark.slow
def test_second_server_on_a_data_folder_is_refused_with_metadata_in_postgres(tmp_path: Path, postgres_dsn: str) -> None:
    with running_server(tmp_path / "data", LAKEBED_META__URL=postgres_dsn) as first:
        second = second_server(first)
        try:
            assert "data folder is in use by another server" in complaint(second)
        finally:
            end(second)


@pytest.mark.integration
@pytest.mark.slow
def test_killed_supervisor_releases_the_lock_while_a_child_still_runs(tmp_path: Path) -> None:
    first = start_server(tmp_path / "data", "--set", "server.shutdown_grace=1h")
    signer = Signer(f"127.0.0.1:{first.port}")
    assert ask(first, signer.request("PUT", "/bucket")).status == 200
    assert ask(first, signer.request("PUT", "/bucket/large", body=bytes(32 * 1024 * 1024))).status == 200
    left = children_of(first)
    with Connection(first.port) as downloading:
        # The worker that is sending a response exits once the client has read all of it.
        downloading.send(signer.request("GET", "/bucket/large"))
        assert downloading._until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        first.process.kill()
        first.process.wait()
        with running_server(tmp_path / "data") as again:
            assert ask(again).status == 403
            assert any(is_alive(pid) for pid in left)
    wait_ended(left)


@pytest.mark.integration
@pytest.mark.slow
def test_server_waits_for_its_predecessor_to_exit(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lock = DataFolderLock.acquire(data, "127.0.0.1:9000")
    server = launch_server(data)
    try:
        # The server has opened the file and found it locked.
        wait_until(lambda: str(data / LOCK_FILE) in open_files(server.process.pid), "the server has the lock file open")
        lock.close()
        wait_until(lambda: '"ready"' in server.log_text(), "the server is ready")
    finally:
        server.kill()


def open_files(pid: int) -> set[str]:
    """Paths of the files that a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(os.readlink(entry))
        except OSError:
            continue
    return found


@pytest.mark.integration
@pytest.mark.slow
def test_commands_work_on_the_data_folder_of_a_running_server(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        for words in (("credentials",), ("user", "create", "ana"), ("user", "list"), ("token-key", "list")):
            command = [sys.executable, "-m", "lakebed", *words, "--data", str(server.data)]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert ended.returncode == 0, ended.stderr
