"""The test suite of pyfluss itself on a running server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.clients.streams.serving import StreamServer
from tests.clients.users import make_user
from tests.fixtures.pyfluss_suite import find_or_download_suite
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = [pytest.mark.integration, pytest.mark.heavy]

LEFT_OUT: Final = {
    "test/test_sasl_auth.py::test_sasl_client_to_plaintext_server": "Lakebed has no servers without authentication",
}
AT_LEAST: Final = 97
"""The number of other tests in 1.0.0: fewer means that some were not collected."""


def test_all_tests_of_pyfluss_pass(streams: StreamServer, tmp_path: Path) -> None:
    suite = find_or_download_suite()
    alice = make_user(streams.server)
    users = [
        ("", "", ROOT_ACCESS_KEY, ROOT_SECRET_KEY),
        ("admin", "admin-secret", ROOT_ACCESS_KEY, ROOT_SECRET_KEY),
        ("alice", "alice-secret", alice.keys.access_key, alice.keys.secret_key),
    ]
    environment = {
        **os.environ,
        "FLUSS_BOOTSTRAP_SERVERS": streams.address,
        "FLUSS_SASL_BOOTSTRAP_SERVERS": streams.address,
        "STREAM_SUITE_USERS": json.dumps(users),
        "PYTHONPATH": os.pathsep.join([str(suite / "site"), str(Path(__file__).parents[3])]),
    }
    options = ["-q", "-rfEs", "-p", "no:cacheprovider", "-p", "no:randomly", f"--basetemp={tmp_path / 'suite'}"]
    plugin = ["-p", "tests.clients.streams.suite.credentials"]
    left_out = [word for name in LEFT_OUT for word in ("--deselect", name)]
    command = [sys.executable, "-m", "pytest", *options, *plugin, "-c", "pyproject.toml", *left_out, "test"]
    done = subprocess.run(
        command, cwd=suite, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    closing = re.search(r"(\d+) passed.*", done.stdout)
    assert closing is not None, done.stdout
    assert int(closing[1]) >= AT_LEAST, closing[0]
    assert f"{len(LEFT_OUT)} deselected" in closing[0]
    assert "skipped" not in closing[0], done.stdout
