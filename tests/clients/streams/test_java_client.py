"""The Java client of Apache Fluss on a running server: all that its administration can ask, and records."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import fluss
import pyarrow as pa
import pytest

from tests.clients.people import make_user
from tests.clients.streams.serving import StreamServer, connected, make_table, start_streams
from tests.fixtures.compatibility_kit import find_or_install_compiler
from tests.fixtures.maven import fetched_jars

pytestmark = [pytest.mark.integration, pytest.mark.heavy]

VERSION: Final = "1.0.0"
_SOURCES: Final = Path(__file__).parent / "java"
_ADMINISTRATION: Final = ("org.apache.fluss.client.admin.Admin", "org.apache.fluss.client.admin.KvSnapshotLease")


def test_administration(streams: StreamServer, tmp_path: Path) -> None:
    other = make_user(streams.server)
    root = (streams.server.access_key, streams.server.secret_key)
    done = _run(
        "Administration", tmp_path, streams.address, *root, other.name, other.keys.access_key, other.keys.secret_key
    )
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


def test_places(streams: StreamServer, tmp_path: Path) -> None:
    done = _run("Places", tmp_path, streams.address, streams.server.access_key, streams.server.secret_key)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


def test_who_is_not_let_in(streams: StreamServer, tmp_path: Path) -> None:
    other, wrong = make_user(streams.server), "a-java-secret-that-is-none"
    root = (streams.server.access_key, streams.server.secret_key)
    them = (other.name, other.keys.access_key, other.keys.secret_key)
    done = _run("Access", tmp_path, streams.address, *root, *them, wrong)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout
    for secret in (wrong, streams.server.secret_key, other.keys.secret_key):
        assert secret not in streams.server.log_text()


def test_every_call_of_the_administration_is_made() -> None:
    """Of all that the client can be asked for; what a program names it calls."""
    javap = find_or_install_compiler() / "bin" / "javap"
    command = [str(javap), "-cp", f"{_client()}/fluss-client-{VERSION}.jar", *_ADMINISTRATION]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    offered = set(re.findall(r"(\w+)\(", "".join(line for line in printed.splitlines() if " abstract " in line)))
    assert len(offered) > 40
    programs = "".join(path.read_text(encoding="utf-8") for path in _SOURCES.glob("*.java"))
    assert {name for name in offered if f".{name}(" not in programs} == set()


def test_records(streams: StreamServer, tmp_path: Path) -> None:
    done = _run("Records", tmp_path, streams.address, streams.server.access_key, streams.server.secret_key)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


async def test_snapshots_of_keys_are_read_by_their_files(tmp_path: Path) -> None:
    path = fluss.TablePath("fluss", "keys")
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    first = start_streams(tmp_path / "data", "--set", "streams.hand_over=true")
    try:
        async with connected(first) as connection:
            table = await make_table(connection, path, schema, primary_key=["id"], bucket_count=2)
            async with table.new_upsert().create_writer() as writer:
                for number in range(100):
                    writer.upsert({"id": number, "name": "first"})
    finally:
        assert first.server.stop() == 0
    # The byte store as a client sees it that has it mounted: by its keys.
    bytes_, mounted = tmp_path / "data" / "bytes", tmp_path / "mounted"
    for file in bytes_.rglob("kv/**/*@"):
        (streams,) = [parent for parent in file.parents if parent.name == "streams"]
        copy = mounted / file.relative_to(streams.parent).with_name(file.name.removesuffix("@"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    second = start_streams(tmp_path / "data", "--set", f"streams.remote_address={mounted}")
    try:
        root = (second.server.access_key, second.server.secret_key)
        done = await asyncio.to_thread(
            _run, "Snapshots", tmp_path, second.address, *root, "fluss", "keys", str(tmp_path / "client")
        )
        assert done.returncode == 0, done.stdout
        assert "all is well" in done.stdout
    finally:
        second.server.kill()


def _run(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    java, class_path = find_or_install_compiler(), f"{folder}:{_client()}/*"
    javac = [str(java / "bin" / "javac"), "-d", str(folder), "-cp", class_path, "-sourcepath", str(_SOURCES)]
    subprocess.run([*javac, str(_SOURCES / f"{program}.java")], check=True)
    # Arrow reads memory that the module system closes to it.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    command = [str(java / "bin" / "java"), *options, "-cp", class_path, program, *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )


def _client() -> Path:
    """The folder with its jars."""
    return fetched_jars(
        f"fluss-client-{VERSION}", "the Java client of Fluss", _SOURCES / "pom.xml", f"-Dclient.version={VERSION}"
    )
