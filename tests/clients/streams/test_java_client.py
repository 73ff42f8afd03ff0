"""The Java client of Apache Fluss on a running server: every admin call, and records."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import fluss
from tests.clients.streams.remote_files import (
    ADDRESS,
    ROWS,
    TABLE,
    file_store,
    fill,
    forbid_lasting_keys,
    reader_of,
    serving_from,
)
from tests.clients.streams.serving import StreamServer, connected, make_table
from tests.clients.users import make_user
from tests.fixtures.compatibility_kit import find_or_install_compiler
from tests.fixtures.maven import Maven, fetched, fetched_jars

pytestmark = [pytest.mark.integration, pytest.mark.heavy]

VERSION: Final = "1.0.0"
S3_PLUGIN_VERSION: Final = "0.9.1-incubating"
"""The newest version in Maven Central."""

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


def test_servers_and_bucket_locations(streams: StreamServer, tmp_path: Path) -> None:
    done = _run("Places", tmp_path, streams.address, streams.server.access_key, streams.server.secret_key)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


def test_unauthorized_clients_are_refused(streams: StreamServer, tmp_path: Path) -> None:
    other, wrong = make_user(streams.server), "a-java-secret-that-is-none"
    root = (streams.server.access_key, streams.server.secret_key)
    them = (other.name, other.keys.access_key, other.keys.secret_key)
    done = _run("Access", tmp_path, streams.address, *root, *them, wrong)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout
    for secret in (wrong, streams.server.secret_key, other.keys.secret_key):
        assert secret not in streams.server.log_text()


def test_every_admin_call_is_covered() -> None:
    """Every public method of the Java admin client is called by a test program."""
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


def test_partitions_are_dropped_under_a_scanner_a_writer_and_a_lookuper(streams: StreamServer, tmp_path: Path) -> None:
    done = _run("Drops", tmp_path, streams.address, streams.server.access_key, streams.server.secret_key)
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout


async def test_kv_snapshots_are_read_from_their_files(tmp_path: Path) -> None:
    path, data = fluss.TablePath("fluss", "keys"), tmp_path / "data"
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    with file_store(tmp_path) as store:
        with serving_from(store, data, "streams.upload_on_stop=true") as streams:
            async with connected(streams) as connection:
                table = await make_table(connection, path, schema, primary_key=["id"], bucket_count=2)
                async with table.new_upsert().create_writer() as writer:
                    for number in range(100):
                        writer.upsert({"id": number, "name": "first"})
            assert streams.server.stop() == 0
        with serving_from(store, data, ADDRESS, f"streams.remote_role={store.role}") as streams:
            root, scratch = (streams.server.access_key, streams.server.secret_key), str(tmp_path / "client")
            words = (streams.address, *root, "fluss", "keys", scratch)
            done = await asyncio.to_thread(_run, "Snapshots", tmp_path, *words, on_s3=True)
            assert done.returncode == 0, done.stdout
            assert "all is well" in done.stdout
        assert any("/streams/kv/" in each.path and each.method == "HEAD" for each in store.reads())


async def test_remote_log_segments_are_read_with_permission_on_the_table(tmp_path: Path) -> None:
    with file_store(tmp_path) as store:
        await fill(store, tmp_path / "data", "others")
        with serving_from(store, tmp_path / "data", ADDRESS, f"streams.remote_role={store.role}") as streams:
            forbid_lasting_keys(store)
            reader, scratch = reader_of(streams, tmp_path, TABLE), str(tmp_path / "client")
            words = (
                streams.address,
                reader.keys.access_key,
                reader.keys.secret_key,
                "fluss",
                TABLE,
                str(ROWS),
                scratch,
            )
            done = await asyncio.to_thread(_run, "Segments", tmp_path, *words, on_s3=True)
            assert done.returncode == 0, done.stdout
            assert "all is well" in done.stdout
        read = {each.path for each in store.reads() if each.path.endswith(".log") and each.status == 206}
        assert len(read) > 10


def _run(program: str, folder: Path, *words: str, on_s3: bool = False) -> subprocess.CompletedProcess[str]:
    java, class_path = find_or_install_compiler(), f"{folder}:{_client()}/*"
    if on_s3:
        class_path += f":{_s3_plugin()}/*"
    javac = [str(java / "bin" / "javac"), "-d", str(folder), "-cp", class_path, "-sourcepath", str(_SOURCES)]
    subprocess.run([*javac, str(_SOURCES / f"{program}.java")], check=True)
    # Arrow needs access to memory that the module system restricts.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    command = [str(java / "bin" / "java"), *options, "-cp", class_path, program, *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )


def _client() -> Path:
    """The folder with the client's jars."""
    return fetched_jars(
        f"fluss-client-{VERSION}", "the Java client of Fluss", _SOURCES / "pom.xml", f"-Dclient.version={VERSION}"
    )


def _s3_plugin() -> Path:
    """The folder with the client's S3 plugin."""

    def fetch(maven: Maven, staging: Path) -> Path:
        # Only the jar: it bundles its dependencies, and its parent POM is not published.
        artifact = f"org.apache.fluss:fluss-fs-s3:{S3_PLUGIN_VERSION}"
        maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={staging / 'jars'}")
        return staging / "jars"

    return fetched(f"fluss-fs-s3-{S3_PLUGIN_VERSION}", "the Java client's plugin for S3", fetch)
