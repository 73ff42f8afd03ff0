"""`lakebed conform` against a running server, as a user would run it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakebed.conform.engines import VERSIONS
from lakebed.conform.failures import failure_probes
from lakebed.conform.rest import CatalogCalls
from tests.clients.users import make_user
from tests.fixtures.server import RunningServer

from .test_options import target

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def new_bucket() -> str:
    return f"conform-{uuid.uuid4().hex[:16]}"


def conform(
    server: RunningServer, *words: str, access_key: str | None = None, endpoint: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {
        "LAKEBED_ENDPOINT": endpoint or server.endpoint,
        "LAKEBED_ACCESS_KEY": access_key or server.access_key,
        "LAKEBED_SECRET_KEY": server.secret_key,
        "LAKEBED_TABLE_BUCKET": new_bucket(),
    }
    command = [sys.executable, "-m", "lakebed", "conform", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def assert_passed(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines[:-1]] == [f"[{number}/10]" for number in range(1, 11)]
    assert lines[-1] == "PASS"


def assert_passes_and_cleans_up(server: RunningServer, profile: str) -> None:
    place = ("--profile", profile, "--bucket", new_bucket())
    assert_passed(conform(server, *place, "--cleanup"))
    root = {"LAKEBED_ACCESS_KEY": server.access_key, "LAKEBED_SECRET_KEY": server.secret_key}
    with CatalogCalls(target(*place, "--endpoint", server.endpoint, environ=root)) as calls:
        assert calls.get(f"{place[-1]}/namespaces")["namespaces"] == []


def test_lakebed_passes(lakebed_server: RunningServer) -> None:
    assert_passes_and_cleans_up(lakebed_server, "lakebed")


def test_lakebed_compat_passes(lakebed_server: RunningServer) -> None:
    assert_passes_and_cleans_up(lakebed_server, "lakebed-compat")


def test_lakebed_vended_credentials_passes(lakebed_server: RunningServer) -> None:
    assert_passes_and_cleans_up(lakebed_server, "lakebed-vended-credentials")


def test_existing_table_is_replaced_with_replace_flag(lakebed_server: RunningServer) -> None:
    place = ("--bucket", new_bucket(), "--namespace", "outer.inner", "--table", "t")
    quick = (*place, "--skip-catalog-api-probes")
    assert_passed(conform(lakebed_server, *quick))
    again = conform(lakebed_server, *quick)
    assert again.returncode == 1
    assert again.stderr.startswith("ERROR: TableAlreadyExistsError")
    assert_passed(conform(lakebed_server, *quick, "--replace", "--cleanup"))


def test_run_is_recorded(lakebed_server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    words = ["--skip-catalog-api-probes", "--cleanup", "--live-evidence-output", str(file)]
    unnamed = conform(lakebed_server, *words)
    assert unnamed.returncode == 1
    assert "lakebed_build is not recorded" in unnamed.stderr
    named = ["--lakebed-build", "test", "--git-sha", "abc", "--catalog-backing", "sqlite", "--operator", "tests"]
    assert_passed(conform(lakebed_server, *words, *named))
    document = json.loads(file.read_text())
    assert document["validation"] == {"is_valid": True, "problems": []}
    record = document["live_conformance_evidence"]
    assert (record["row_count"], record["cleanup_result"], record["claim"]) == (2, "dropped", "catalog-smoke")
    assert record["metadata_location"].startswith("s3://conform-")


def test_unknown_access_key_fails_with_one_line(lakebed_server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    done = conform(lakebed_server, "--live-evidence-output", str(file), access_key="AKIANOBODYKNOWSTHIS0")
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR: ")
    assert len(done.stderr.splitlines()) == 1
    assert json.loads(file.read_text())["live_conformance_evidence"]["observed_status"] == "fail"


def test_unreachable_server_fails_with_one_line(lakebed_server: RunningServer) -> None:
    done = conform(lakebed_server, endpoint="http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR: EndpointConnectionError")
    assert len(done.stderr.splitlines()) == 1


def test_printed_failure_probes_get_their_expected_status(lakebed_server: RunningServer) -> None:
    bucket = new_bucket()
    place = ("--bucket", bucket, "--namespace", "ns", "--table", "t")
    assert_passed(conform(lakebed_server, *place, "--skip-catalog-api-probes"))
    root = {"LAKEBED_ACCESS_KEY": lakebed_server.access_key, "LAKEBED_SECRET_KEY": lakebed_server.secret_key}
    made = target(*place, "--endpoint", lakebed_server.endpoint, environ=root)
    user = make_user(lakebed_server).keys
    other = {"LAKEBED_ACCESS_KEY": user.access_key, "LAKEBED_SECRET_KEY": user.secret_key}
    unprivileged = target(*place, "--endpoint", lakebed_server.endpoint, environ=other)
    values = {"bucket": bucket, "namespace": "ns", "table": "t", **{option.name: "" for option in VERSIONS}}
    found: dict[str, Sequence[object]] = {}
    expected: dict[str, Sequence[object]] = {}
    with CatalogCalls(made) as calls, CatalogCalls(unprivileged) as user_calls:
        for probe in failure_probes(values, made.resolved):
            client = user_calls if "sign_with" in probe else calls
            path = probe["url"].removeprefix(f"{made.resolved.catalog_uri}/v1/")
            response = client.send(probe["method"], path, probe["body"])
            found[probe["probe"]] = (
                response.status,
                response.text if response.status != probe["expected_status"] else "",
            )
            expected[probe["probe"]] = (probe["expected_status"], "")
    assert found == expected
