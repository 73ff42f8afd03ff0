"""Servers whose object store belongs to another deployment, is empty, or is unavailable."""

from __future__ import annotations

import re
import secrets
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from lakebed.cli.main import main
from lakebed.core.clock import SystemClock
from lakebed.core.ids import BlobId, new_blob_id
from lakebed.objects.blobs.ingest import blob_key
from lakebed.server.stores.object_store import BYTES_FOLDER
from lakebed.server.streams.composition import STREAMS_FOLDER
from lakebed.streams.buckets.folder_ownership import LOGS_FOLDER
from tests.clients.boto import connected
from tests.fixtures.minio import MinioServer, find_or_build_minio, running_minio
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, RunningServer, launch_server, start_server

from ..running_processes import GUARD_SECONDS, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BODY = b"3 MB" * 750_000
EAGER = {"LAKEBED_OBJECTS__ORPHAN_WINDOW": "1s", "LAKEBED_OBJECTS__SWEEP_INTERVAL": "1s"}
"""Sweeps as often as possible, and deletes every unreferenced blob."""


def refusal(data: Path, environment: Mapping[str, str]) -> str:
    """Start a server that must fail; its error."""
    server = launch_server(data, environment=environment)
    try:
        assert server.process.wait(timeout=GUARD_SECONDS) == 2, server.log_text()
    finally:
        if server.process.poll() is None:
            server.kill()
    log = server.log_text()
    assert "Traceback" not in log, log
    return log.splitlines()[-1]


@contextmanager
def serving(data: Path, environment: Mapping[str, str], workers: int = 2) -> Iterator[RunningServer]:
    """Run a server with these settings."""
    server = start_server(data, workers=workers, environment=environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def put(server: RunningServer) -> None:
    with connected(server) as s3:
        s3.create_bucket(Bucket="lake")
        s3.put_object(Bucket="lake", Key="big", Body=BODY)


def is_intact(server: RunningServer) -> bool:
    with connected(server) as s3:
        return bool(s3.get_object(Bucket="lake", Key="big")["Body"].read() == BODY)


OLD_BLOB = BlobId("0" * 32)
"""An id with the oldest possible timestamp."""

LeaveOrphan = Callable[[], None]


def in_folder(data: Path, blob: BlobId = OLD_BLOB) -> LeaveOrphan:
    """Leaves an orphan in the server's own folder."""

    def leave() -> None:
        path = data / BYTES_FOLDER / "objects" / f"{blob_key(blob)}@"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"orphan")

    return leave


def in_bucket(minio: MinioServer, bucket: str) -> LeaveOrphan:
    """Leaves an orphan in a bucket of MinIO."""

    def leave() -> None:
        with minio.client() as s3:
            s3.put_object(Bucket=bucket, Key=blob_key(OLD_BLOB), Body=b"orphan")

    return leave


def wait_for_a_sweep(server: RunningServer, leave_orphan: LeaveOrphan) -> None:
    """Wait until the server has swept its store and deleted an orphan."""
    leave_orphan()
    wait_until(lambda: "orphan blobs deleted" in server.log_text(), "an orphan is deleted")


def on(minio: MinioServer, bucket: str, **more: str) -> dict[str, str]:
    """Settings for an object store in a bucket of MinIO."""
    return {
        "LAKEBED_STORAGE__KIND": "s3",
        "LAKEBED_STORAGE__S3__BUCKET": bucket,
        "LAKEBED_STORAGE__S3__ENDPOINT": minio.endpoint,
        "LAKEBED_STORAGE__S3__REGION": "us-east-1",
        "LAKEBED_STORAGE__S3__ALLOW_HTTP": "true",
        "LAKEBED_STORAGE__S3__ACCESS_KEY_ID": minio.access_key_id,
        "LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": minio.secret_access_key,
        **EAGER,
        **more,
    }


def test_lost_metadata_does_not_delete_objects_in_a_folder(tmp_path: Path) -> None:
    data, kept = tmp_path / "data", tmp_path / "kept"
    with serving(data, EAGER) as server:
        put(server)
        server.stop()
    kept.mkdir()
    for file in data.glob("meta.db*"):
        shutil.move(file, kept / file.name)
    line = refusal(data, EAGER)
    assert line.startswith("lakebed: the object store belongs to another deployment; nothing was changed.")
    assert str(data / BYTES_FOLDER) in line
    assert len(set(re.findall(r"_deployment=([a-z2-7]{26})", line))) == 2
    for file in data.glob("meta.db*"):
        file.unlink()
    for file in kept.iterdir():
        shutil.move(file, data / file.name)
    with serving(data, EAGER) as server:
        wait_for_a_sweep(server, in_folder(data))
        assert is_intact(server)


def test_two_servers_with_different_metadata_do_not_share_a_bucket(tmp_path: Path, minio: MinioServer) -> None:
    bucket = minio.make_bucket()
    settings = on(minio, bucket)
    with serving(tmp_path / "production", settings) as production:
        put(production)
        line = refusal(tmp_path / "staging", settings)
        assert "belongs to another deployment" in line
        assert minio.endpoint in line
        wait_for_a_sweep(production, in_bucket(minio, bucket))
        assert is_intact(production)


def test_missing_database_url_does_not_delete_objects_in_a_bucket(
    tmp_path: Path, minio: MinioServer, postgres_dsn: str
) -> None:
    bucket = minio.make_bucket()
    settings = on(minio, bucket)
    with serving(tmp_path / "data", settings | {"LAKEBED_META__URL": postgres_dsn}) as server:
        put(server)
        server.stop()
    assert "belongs to another deployment" in refusal(tmp_path / "data", settings)
    with serving(tmp_path / "data", settings | {"LAKEBED_META__URL": postgres_dsn}) as server:
        wait_for_a_sweep(server, in_bucket(minio, bucket))
        assert is_intact(server)


def test_two_databases_do_not_share_a_bucket_and_losing_one_keeps_its_objects(
    tmp_path: Path, minio: MinioServer, postgres_server: PostgresServer
) -> None:
    bucket = minio.make_bucket()
    schema = f"test_{secrets.token_hex(6)}"
    postgres_server.execute(f"CREATE SCHEMA {schema}; CREATE SCHEMA {schema}_staging")
    settings = on(minio, bucket, LAKEBED_META__URL=postgres_server.dsn(search_path=schema))
    staging = settings | {"LAKEBED_META__URL": postgres_server.dsn(search_path=f"{schema}_staging")}
    with serving(tmp_path / "data", settings) as server:
        put(server)
        assert "belongs to another deployment" in refusal(tmp_path / "staging", staging)
        server.stop()
    postgres_server.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_kept; CREATE SCHEMA {schema}")
    assert "belongs to another deployment" in refusal(tmp_path / "data", settings)
    postgres_server.execute(f"DROP SCHEMA {schema} CASCADE; ALTER SCHEMA {schema}_kept RENAME TO {schema}")
    with serving(tmp_path / "data", settings) as server:
        wait_for_a_sweep(server, in_bucket(minio, bucket))
        assert is_intact(server)


def test_lost_metadata_does_not_delete_logs_of_stream_tables(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = EAGER | {"LAKEBED_STREAMS__LISTEN": "127.0.0.1:0"}
    with serving(data, settings) as server:
        server.stop()
    log = data / STREAMS_FOLDER / LOGS_FOLDER / "1" / "all" / "0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"records")
    # With another object store, only the streams folder shows that the metadata is not its own.
    shutil.rmtree(data / BYTES_FOLDER)
    for file in data.glob("meta.db*"):
        file.unlink()
    line = refusal(data, settings)
    assert "the local folder of stream tables belongs to another deployment; nothing was changed." in line
    assert len(set(re.findall(r"_deployment=([a-z2-7]{26})", line))) == 2
    assert log.read_bytes() == b"records"


def test_another_database_does_not_delete_objects_in_a_folder(tmp_path: Path, postgres_dsn: str) -> None:
    data = tmp_path / "data"
    with serving(data, EAGER | {"LAKEBED_META__URL": postgres_dsn}) as server:
        put(server)
        server.stop()
    assert "belongs to another deployment" in refusal(data, EAGER)
    with serving(data, EAGER | {"LAKEBED_META__URL": postgres_dsn}) as server:
        wait_for_a_sweep(server, in_folder(data))
        assert is_intact(server)


def test_attach_command_keeps_the_objects_of_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with serving(data, EAGER) as server:
        put(server)
        server.stop()
    for file in data.glob("meta.db*"):
        file.unlink()
    line = refusal(data, EAGER)
    (other_deployment,) = re.findall(r"lakebed storage attach --replace ([a-z2-7]{26})", line)
    monkeypatch.setenv("LAKEBED_ROOT_ACCESS_KEY", ROOT_ACCESS_KEY)
    monkeypatch.setenv("LAKEBED_ROOT_SECRET_KEY", ROOT_SECRET_KEY)
    assert main(["storage", "status", "--data", str(data)]) == 1
    assert "belongs to another deployment" in capsys.readouterr().out
    assert main(["storage", "attach", "--replace", other_deployment, "--data", str(data)]) == 0
    assert "belongs to this deployment" in capsys.readouterr().out
    blobs = sorted(path for path in (data / BYTES_FOLDER).rglob("*@") if "blobs" in path.parts)
    assert len(blobs) == 1
    with serving(data, EAGER) as server:
        put(server)
        wait_for_a_sweep(server, in_folder(data, new_blob_id(SystemClock())))
        assert is_intact(server)
    assert blobs[0].read_bytes() == BODY


def ready(server: RunningServer) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{server.endpoint}/health/ready", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def metric(server: RunningServer, name: str) -> float:
    with urllib.request.urlopen(f"{server.endpoint}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return float(re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)[0])


def test_an_unmounted_disk_is_an_internal_error_and_not_a_missing_key(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, {}, workers=1) as server:
        put(server)
        assert ready(server) == (200, "ready\n")
        (data / BYTES_FOLDER).rename(tmp_path / "unmounted")
        (data / BYTES_FOLDER / "objects").mkdir(parents=True)
        with connected(server) as s3, pytest.raises(ClientError) as refused:
            s3.get_object(Bucket="lake", Key="big")
        assert refused.value.response["Error"]["Code"] == "InternalError"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert "stored bytes are missing from the object store" in server.log_text()
        assert metric(server, "lakebed_missing_blob_reads_total") >= 1
        status, text = ready(server)
        assert status == 503
        assert text.startswith("not ready: object store: the object store has no deployment id")
        shutil.rmtree(data / BYTES_FOLDER)
        (tmp_path / "unmounted").rename(data / BYTES_FOLDER)
        assert ready(server) == (200, "ready\n")
        assert is_intact(server)


def test_a_deleted_bucket_of_the_store_is_not_a_missing_bucket_of_the_client(
    tmp_path: Path, minio: MinioServer
) -> None:
    bucket = minio.make_bucket()
    settings = on(minio, bucket, LAKEBED_STORAGE__S3__RETRY__TIMEOUT="1s")
    with serving(tmp_path / "data", settings, workers=1) as server:
        put(server)
        with minio.client() as store:
            for found in store.list_objects_v2(Bucket=bucket)["Contents"]:
                store.delete_object(Bucket=bucket, Key=found["Key"])
            store.delete_bucket(Bucket=bucket)
        with connected(server) as s3:
            with pytest.raises(ClientError) as unread:
                s3.get_object(Bucket="lake", Key="big")
            with pytest.raises(ClientError) as unwritten:
                s3.put_object(Bucket="lake", Key="another", Body=BODY)
        assert unread.value.response["Error"]["Code"] == "InternalError"
        assert unwritten.value.response["Error"]["Code"] == "ServiceUnavailable"
        status, text = ready(server)
        assert status == 503
        assert text.startswith("not ready: object store: ")


def test_get_from_an_unavailable_store_fails_before_the_response_head(tmp_path: Path) -> None:
    binary = find_or_build_minio()
    (tmp_path / "minio").mkdir()
    with ExitStack() as ends:
        with running_minio(binary, tmp_path / "minio") as minio:
            settings = on(minio, minio.make_bucket(), LAKEBED_STORAGE__S3__RETRY__TIMEOUT="1s")
            server = ends.enter_context(serving(tmp_path / "data", settings, workers=1))
            put(server)
        with connected(server) as s3, pytest.raises(ClientError) as refused:
            s3.get_object(Bucket="lake", Key="big")
        assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        status, text = ready(server)
        assert status == 503
        assert text.startswith("not ready: object store: ")
