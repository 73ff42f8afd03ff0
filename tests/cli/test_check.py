"""`lakebed check storage` as a process, against real stores, working and broken."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import Keys, connected, root_keys
from tests.clients.iceberg.lake import new_lake
from tests.clients.tls import make_certificate, running_tls_server
from tests.clients.users import make_user, user_with_actions
from tests.fixtures.minio import MinioServer, minio
from tests.fixtures.ports import free_port
from tests.fixtures.server import RunningServer, lakebed_server
from tests.fixtures.versitygw import Gateway, Suite, running_gateway, versitygw

__all__ = ["lakebed_server", "minio", "versitygw"]

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LATE = """
import sys, time
ns, seconds = time.time_ns, time.time
time.time_ns = lambda: ns() - 3600 * 10**9
time.time = lambda: seconds() - 3600
from lakebed.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A server whose clock is an hour behind."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Exit status and report of a check."""

    status: int
    report: Any  # Any: JSON

    def outcomes(self) -> dict[str, str]:
        return {step["step"]: step["outcome"] for step in self.report["steps"]}

    def step(self, name: str) -> dict[str, str]:
        found: dict[str, str] = next(step for step in self.report["steps"] if step["step"] == name)
        return found

    def failed(self) -> list[str]:
        return [name for name, outcome in self.outcomes().items() if outcome == "failed"]


@pytest.fixture
def empty_folder(tmp_path: Path) -> Path:
    """A folder without a server's data, so that it has no credentials."""
    return tmp_path


def environment_of(keys: Keys | None, **more: str) -> dict[str, str]:
    """An environment with only these credentials."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
    kept |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    kept["AWS_EC2_METADATA_DISABLED"] = "true"
    if keys is not None:
        kept |= {"AWS_ACCESS_KEY_ID": keys.access_key, "AWS_SECRET_ACCESS_KEY": keys.secret_key}
    return {**kept, **more}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "lakebed", "check", "storage", *words]


def check(folder: Path, keys: Keys | None, *words: str, **more: str) -> Checked:
    """Run a check. It must print only the report."""
    done = subprocess.run(
        command(*words, "--json"), cwd=folder, env=environment_of(keys, **more), capture_output=True, check=False
    )
    assert done.stderr == b"", done.stderr.decode()
    return Checked(done.returncode, json.loads(done.stdout))


# -- working stores -------------------------------------------------------------------------------------------------


def test_lakebed_server_passes_and_is_left_unchanged(lakebed_server: RunningServer, empty_folder: Path) -> None:
    with connected(lakebed_server) as s3:
        before = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
        found = check(empty_folder, root_keys(lakebed_server), "--endpoint", lakebed_server.endpoint)
        after = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert (found.status, found.report["well"], found.failed()) == (0, True, [])
    assert {name for name, outcome in found.outcomes().items() if outcome != "passed"} == {"tls", "vended keys"}
    assert before == after


def test_server_is_found_by_its_data_folder(lakebed_server: RunningServer, empty_folder: Path) -> None:
    listen = lakebed_server.endpoint.removeprefix("http://")
    found = check(
        empty_folder,
        None,
        *("--data", str(lakebed_server.data), "--set", f"server.listen={listen}"),
        LAKEBED_ROOT_ACCESS_KEY=lakebed_server.access_key,
        LAKEBED_ROOT_SECRET_KEY=lakebed_server.secret_key,
    )
    assert (found.status, found.report["endpoint"]) == (0, lakebed_server.endpoint)


def test_vended_credentials_are_limited_to_their_table_and_cleaned_up(
    lakebed_server: RunningServer, empty_folder: Path
) -> None:
    lake = new_lake(lakebed_server)
    bucket = f"versioned-{uuid.uuid4().hex[:12]}"
    with connected(lakebed_server) as s3:
        s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        words = ("--endpoint", lakebed_server.endpoint, "--bucket", bucket, "--warehouse", lake.warehouse)
        found = check(empty_folder, root_keys(lakebed_server), *words)
        assert (found.status, found.failed()) == (0, [])
        assert "versioned" in found.step("put")["found"]
        assert "denied" in found.step("vended keys")["found"]
        for name in (bucket, lake.warehouse):
            listed = s3.list_object_versions(Bucket=name)
            assert not listed.get("Versions")
            assert not listed.get("DeleteMarkers")
            assert not s3.list_multipart_uploads(Bucket=name).get("Uploads")
    assert lake.call("GET", "namespaces")["namespaces"] == []


def test_store_with_sts_passes(minio: MinioServer, empty_folder: Path) -> None:
    bucket = minio.make_bucket()
    keys = Keys(minio.access_key_id, minio.secret_access_key)
    found = check(empty_folder, keys, "--endpoint", minio.endpoint, "--bucket", bucket, "--prefix", "some/where")
    assert (found.status, found.failed()) == (0, [])
    assert (found.outcomes()["sts"], found.outcomes()["out of scope"]) == ("passed", "passed")
    with minio.client() as s3:
        assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_tls_step_shows_the_certificate(tmp_path: Path, empty_folder: Path) -> None:
    certificate = make_certificate(tmp_path)
    with running_tls_server(tmp_path / "data", certificate) as server:
        keys = root_keys(server)
        trusted = check(empty_folder, keys, "--endpoint", server.endpoint, AWS_CA_BUNDLE=str(certificate.certificate))
        assert (trusted.status, trusted.failed()) == (0, [])
        assert "TLSv1" in trusted.step("tls")["found"]
        unknown = check(empty_folder, keys, "--endpoint", server.endpoint)
        assert (unknown.status, unknown.failed()) == (1, ["tls"])
        assert "not trusted" in unknown.step("tls")["why"]
        assert "AWS_CA_BUNDLE" in unknown.step("tls")["advice"]
        plain = check(empty_folder, keys, "--endpoint", server.endpoint.replace("https", "http"))
        assert (plain.status, plain.failed()) == (1, ["clock"])
        assert "speaks TLS" in plain.step("clock")["why"]


# -- broken stores -----------------------------------------------------------------------------------------------------


def broken_at(found: Checked, step: str, why: str, advice: str) -> None:
    """Exactly one step failed, with this reason and advice."""
    assert (found.status, found.report["well"], found.failed()) == (1, False, [step])
    assert why in found.step(step)["why"]
    assert advice in found.step(step)["advice"]
    assert found.report["left_behind"] == []


def test_wrong_secret_fails_the_credentials_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    keys = Keys(lakebed_server.access_key, "not-the-secret")
    found = check(empty_folder, keys, "--endpoint", lakebed_server.endpoint)
    broken_at(found, "credentials", "the secret does not match", "Check the secret access key")
    assert lakebed_server.secret_key not in json.dumps(found.report)


def test_unknown_key_fails_the_credentials_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    found = check(empty_folder, Keys("LKBDNOBODYKNOWSTHIS1", "a-secret"), "--endpoint", lakebed_server.endpoint)
    broken_at(found, "credentials", "unknown access key", "belongs to this store")


def test_missing_credentials_fail_the_credentials_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    found = check(empty_folder, None, "--endpoint", lakebed_server.endpoint)
    assert found.failed() == ["credentials"]
    assert "no credentials" in found.step("credentials")["why"]


def test_unknown_host_name_fails_the_dns_step(empty_folder: Path) -> None:
    found = check(empty_folder, Keys("key", "secret"), "--endpoint", "http://store.invalid:9000")
    broken_at(found, "dns", "store.invalid does not resolve", "getent hosts store.invalid")
    assert set(list(found.outcomes().values())[1:]) == {"skipped"}


def test_closed_port_fails_the_tcp_step(empty_folder: Path) -> None:
    found = check(empty_folder, Keys("key", "secret"), "--endpoint", f"http://127.0.0.1:{free_port()}")
    broken_at(found, "tcp", "refused", "Check that the store is running")


def test_https_on_a_plain_port_fails_the_tls_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    endpoint = lakebed_server.endpoint.replace("http", "https")
    found = check(empty_folder, root_keys(lakebed_server), "--endpoint", endpoint)
    broken_at(found, "tls", "speaks plain HTTP", "Use http://")


def test_missing_bucket_fails_the_bucket_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    words = ("--endpoint", lakebed_server.endpoint, "--bucket", "no-such-bucket")
    found = check(empty_folder, root_keys(lakebed_server), *words)
    broken_at(found, "bucket", "no such bucket: no-such-bucket", "Create it")


def test_read_only_credentials_fail_the_put_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    reader = make_user(lakebed_server, "readonly")
    bucket = f"readable-{uuid.uuid4().hex[:12]}"
    with connected(lakebed_server) as s3:
        s3.create_bucket(Bucket=bucket)
    words = ("--endpoint", lakebed_server.endpoint, "--bucket", bucket, "--prefix", "lake")
    found = check(empty_folder, reader.keys, *words)
    broken_at(found, "put", "permission denied", f"Allow s3:PutObject on arn:aws:s3:::{bucket}/lake/*")
    assert found.outcomes()["list"] == "passed"
    assert found.outcomes()["delete"] == "skipped"


def test_objects_left_without_delete_permission_are_reported(
    lakebed_server: RunningServer, empty_folder: Path, tmp_path: Path
) -> None:
    rights = ("s3:PutObject", "s3:GetObject", "s3:ListBucket*", "s3:AbortMultipartUpload", "sts:*")
    writer = user_with_actions(lakebed_server, tmp_path, *rights)
    bucket = f"kept-{uuid.uuid4().hex[:12]}"
    with connected(lakebed_server) as s3:
        s3.create_bucket(Bucket=bucket)
        found = check(empty_folder, writer.keys, "--endpoint", lakebed_server.endpoint, "--bucket", bucket)
        there = [f"{bucket}/{one['Key']}" for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert (found.status, found.failed()) == (1, ["delete"])
    assert "s3:DeleteObject" in found.step("delete")["advice"]
    assert sorted(found.report["left_behind"]) == sorted(there)


def test_wrong_clock_fails_the_clock_step(tmp_path: Path, empty_folder: Path) -> None:
    with running_late_server(tmp_path) as endpoint:
        found = check(empty_folder, Keys("key", "secret"), "--endpoint", endpoint)
    broken_at(found, "clock", "60 min behind this machine's", "timedatectl")


@pytest.fixture(scope="module")
def gateway(versitygw: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(versitygw, tmp_path_factory.mktemp("gateway")) as running:
        running.make_bucket("bytes")
        yield running


def test_store_without_sts_reports_the_consequence(gateway: Gateway, empty_folder: Path) -> None:
    keys = Keys(gateway.access_key, gateway.secret_key)
    found = check(empty_folder, keys, "--endpoint", gateway.endpoint, "--bucket", "bytes")
    assert (found.status, found.failed()) == (0, [])
    assert (found.outcomes()["sts"], found.outcomes()["out of scope"]) == ("absent", "skipped")
    assert "credentials or signatures of Lakebed" in found.step("sts")["why"]
    assert gateway.files("bytes") == []


def test_missing_sts_at_the_given_endpoint_fails(gateway: Gateway, empty_folder: Path) -> None:
    keys = Keys(gateway.access_key, gateway.secret_key)
    words = ("--endpoint", gateway.endpoint, "--bucket", "bytes", "--role-arn", "arn:aws:iam::1:role/r")
    found = check(empty_folder, keys, *words)
    broken_at(found, "sts", "no STS at this endpoint", "--sts-endpoint")


def test_storage_backend_of_the_settings_is_checked_with_its_credentials(gateway: Gateway, empty_folder: Path) -> None:
    settings = {
        "LAKEBED_STORAGE__KIND": "s3",
        "LAKEBED_STORAGE__S3__ENDPOINT": gateway.endpoint,
        "LAKEBED_STORAGE__S3__BUCKET": "bytes",
        "LAKEBED_STORAGE__S3__ALLOW_HTTP": "true",
        "LAKEBED_STORAGE__S3__ACCESS_KEY_ID": gateway.access_key,
        "LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": gateway.secret_key,
    }
    found = check(empty_folder, None, **settings)
    assert (found.status, found.report["endpoint"], found.report["bucket"]) == (0, gateway.endpoint, "bytes")
    without = check(empty_folder, None, "--set", "storage.s3.conditional_put=disabled", **settings)
    assert without.outcomes()["conditional put"] == "skipped"
    assert gateway.files("bytes") == []


# -- output -------------------------------------------------------------------------------------------------


def test_default_output_is_a_table_with_the_failed_step(lakebed_server: RunningServer, empty_folder: Path) -> None:
    keys = Keys(lakebed_server.access_key, "not-the-secret")
    done = subprocess.run(
        command("--endpoint", lakebed_server.endpoint),
        cwd=empty_folder,
        env=environment_of(keys),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["step", "outcome", "time", "found"]
    assert [line.split()[:2] for line in lines[3:8]] == [
        ["dns", "passed"],
        ["tcp", "passed"],
        ["tls", "skipped"],
        ["clock", "passed"],
        ["credentials", "failed"],
    ]
    assert any(line.startswith("  next: Check the secret") for line in lines)
    assert lines[-1] == "1 of 15 steps failed"


def test_progress_is_shown_on_a_terminal_only(lakebed_server: RunningServer, empty_folder: Path) -> None:
    ours, theirs = pty.openpty()
    words = command("--endpoint", lakebed_server.endpoint, "--json")
    environment = environment_of(root_keys(lakebed_server), TERM="xterm")
    with subprocess.Popen(words, cwd=empty_folder, env=environment, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            shown += piece
        printed, _ = process.communicate()
    os.close(ours)
    # Steps that end between two redraws are not shown.
    assert any(step in shown for step in (b"bucket", b"multipart", b"out of scope", b"delete"))
    assert json.loads(printed)["well"]


@contextmanager
def running_late_server(folder: Path) -> Iterator[str]:
    port = free_port()
    words = ["serve", "--data", str(folder / "late"), "--listen", f"127.0.0.1:{port}", "--workers", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEBED_")}
    with (folder / "late.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", LATE, *words], env=environment, stdout=log, stderr=log)
    endpoint = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 30
    try:
        while True:
            try:
                urllib.request.urlopen(f"{endpoint}/health/ready", timeout=2).close()
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail((folder / "late.log").read_text(errors="replace"))
                time.sleep(0.05)
        yield endpoint
    finally:
        process.terminate()
        process.wait()
