"""`lakebed pipeline worker` without tasks; with tasks, see `tests/pipeline/`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.conftest import Lakebed
from tests.fixtures.server import RunningServer

GUARD_SECONDS = 60


def test_idle_time_of_zero_is_rejected(lakebed: Lakebed) -> None:
    refused = lakebed("pipeline", "worker", "--idle", "0s")
    assert (refused.status, refused.out) == (2, "")
    assert "--idle must be longer than 0" in refused.err


def test_unknown_job_is_rejected(lakebed: Lakebed) -> None:
    refused = lakebed("pipeline", "worker", "--job", "polish-table")
    assert refused.status == 2
    assert "polish-table" in refused.err


def test_missing_credentials_name_what_to_set(lakebed: Lakebed) -> None:
    refused = lakebed("pipeline", "worker", "--endpoint", "http://127.0.0.1:1")
    assert refused.status == 2
    assert "set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY" in refused.err


def start(server: RunningServer, *flags: str) -> subprocess.Popen[str]:
    keys = {"LAKEBED_ACCESS_KEY": server.access_key, "LAKEBED_SECRET_KEY": server.secret_key}
    return subprocess.Popen(
        [sys.executable, "-m", "lakebed", "pipeline", "worker", "--endpoint", server.endpoint, *flags],
        env={**os.environ, **keys},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.integration
@pytest.mark.slow
class TestWithAServer:
    def test_worker_exits_after_the_idle_time(self, lakebed_server: RunningServer) -> None:
        with start(lakebed_server, "--name", "w", "--job", "export-events", "--idle", "1s") as worker:
            out, err = worker.communicate(timeout=GUARD_SECONDS)
        assert (worker.returncode, err) == (0, "")
        assert out == f"worker w leases tasks from {lakebed_server.endpoint}\n"

    def test_worker_exits_on_sigterm(self, lakebed_server: RunningServer) -> None:
        with start(lakebed_server, "--job", "export-events") as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline().startswith("worker ")
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(GUARD_SECONDS) == 0

    def test_worker_exits_with_its_parent(self, lakebed_server: RunningServer) -> None:
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            gone.wait()
        with start(lakebed_server, "--job", "export-events", "--with-parent", str(gone.pid)) as worker:
            assert worker.wait(GUARD_SECONDS) == 0

    def test_worker_reports_an_unknown_access_key(self, lakebed_server: RunningServer) -> None:
        wrong = RunningServer(
            lakebed_server.endpoint,
            "LKBDNOTOFTHISSERVER0",
            "another-unknown-secret",
            lakebed_server.data,
            lakebed_server.process,
            lakebed_server.log,
        )
        with start(wrong, "--idle", "1s") as worker:
            _, err = worker.communicate(timeout=GUARD_SECONDS)
        assert worker.returncode == 2
        assert "does not exist in our records" in err
