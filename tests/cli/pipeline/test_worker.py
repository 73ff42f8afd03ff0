"""`lakebed pipeline worker` where there is nothing to do; with something to do, it is in `tests/pipeline/`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.conftest import Lakebed
from tests.fixtures.server import RunningServer

GUARD_SECONDS = 60


def test_an_idleness_of_nothing_is_refused(lakebed: Lakebed) -> None:
    refused = lakebed("pipeline", "worker", "--idle", "0s")
    assert (refused.status, refused.out) == (2, "")
    assert "--idle must be longer than 0" in refused.err


def test_a_job_that_there_is_not_is_refused(lakebed: Lakebed) -> None:
    refused = lakebed("pipeline", "worker", "--job", "polish-table")
    assert refused.status == 2
    assert "polish-table" in refused.err


def test_without_keys_it_says_what_to_set(lakebed: Lakebed) -> None:
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
    def test_it_ends_when_it_was_idle_for_so_long(self, lakebed_server: RunningServer) -> None:
        with start(lakebed_server, "--name", "w", "--job", "export-events", "--idle", "1s") as worker:
            out, err = worker.communicate(timeout=GUARD_SECONDS)
        assert (worker.returncode, err) == (0, "")
        assert out == f"worker w leases tasks from {lakebed_server.endpoint}\n"

    def test_it_ends_when_it_is_told_to(self, lakebed_server: RunningServer) -> None:
        with start(lakebed_server, "--job", "export-events") as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline().startswith("worker ")
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(GUARD_SECONDS) == 0

    def test_it_ends_with_the_process_that_started_it_also_if_that_was_gone_before(
        self, lakebed_server: RunningServer
    ) -> None:
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            gone.wait()
        with start(lakebed_server, "--job", "export-events", "--with-parent", str(gone.pid)) as worker:
            assert worker.wait(GUARD_SECONDS) == 0

    def test_it_says_that_the_key_is_not_of_this_server(self, lakebed_server: RunningServer) -> None:
        wrong = RunningServer(
            lakebed_server.endpoint,
            "LKBDNOTOFTHISSERVER0",
            "another-secret-of-nobody",
            lakebed_server.data,
            lakebed_server.process,
            lakebed_server.log,
        )
        with start(wrong, "--idle", "1s") as worker:
            _, err = worker.communicate(timeout=GUARD_SECONDS)
        assert worker.returncode == 2
        assert "does not exist in our records" in err
