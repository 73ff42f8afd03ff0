"""Runs documented commands as a user would, in an empty folder."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from tests.fixtures.ports import free_ports

from .blocks import Block

_COMMAND_SECONDS: Final = 120.0
_START_SECONDS: Final = 60.0


class User:
    """Runs blocks in order. Servers that they start run until the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._http, self._catalog, self._streams = free_ports(3)
        self._health = self._http
        self._server: subprocess.Popen[bytes] | None = None
        self._data = folder / "lakebed-data"
        binaries = Path(sys.executable).parent
        # As in a checkout after `make setup`.
        (folder / ".venv").symlink_to(binaries.parent, target_is_directory=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "AWS_"))}
        self._environment = {
            **kept,
            "PATH": f"{binaries}:{kept['PATH']}",
            # Instead of the default ports, which may be in use.
            "LAKEBED_SERVER__LISTEN": f"127.0.0.1:{self._http}",
            "LAKEBED_PIPELINE__EMBEDDED_WORKER": "off",
        }

    def run(self, block: Block) -> None:
        """Run a block. Raises AssertionError with the output if it fails."""
        if block.language == "python":
            self._run([sys.executable, "-W", "ignore", "-c", self.filled_in(block.text)], block)
            return
        for command in block.commands:
            self.type(self.filled_in(command), block)

    def type(self, command: str, block: Block | None = None) -> None:
        """Run a command. A server stays running once it is ready."""
        words = shlex.split(command)
        if len(words) > 1 and words[0].endswith("lakebed") and words[1] == "serve":
            self._serve(words)
        else:
            self._run(["bash", "-euo", "pipefail", "-c", command], block)

    def _run(self, command: list[str], block: Block | None) -> None:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment | self._keys(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
        )
        what = command[-1] if block is None else f"{block.name}: {command[-1]}"
        assert done.returncode == 0, f"{what}\n{done.stdout}{done.stderr}"

    def _serve(self, words: list[str]) -> None:
        self.leave()
        if "--data" in words:
            self._data = self._folder / words[words.index("--data") + 1]
        if "--streams-listen" in words:
            self._environment["LAKEBED_STREAMS__LISTEN"] = f"127.0.0.1:{self._streams}"
        # A separate catalog listener has health probes, too.
        self._health = self._catalog if "--catalog-listen" in words else self._http
        with (self._folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                words, cwd=self._folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/health/ready", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                log_text = (self._folder / "server.log").read_text()
                assert self._server.poll() is None, log_text
                assert time.monotonic() < deadline, log_text
                time.sleep(0.05)

    def leave(self) -> None:
        """Stop the server, if any."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(timeout=60)
            self._server = None

    def _keys(self) -> dict[str, str]:
        """Root's credentials as environment variables. Commands with `--data` find them themselves."""
        secrets = self._data / "secrets.json"
        if not secrets.exists():
            return {}
        kept = json.loads(secrets.read_text())
        return {
            "LAKEBED_ENDPOINT": f"http://127.0.0.1:{self._http}",
            "AWS_ACCESS_KEY_ID": kept["root_access_key"],
            "AWS_SECRET_ACCESS_KEY": kept["root_secret_key"],
        }

    def filled_in(self, text: str) -> str:
        """The text with the ports and root's credentials of this run."""
        keys = self._keys()
        access_key, secret_key = keys.get("AWS_ACCESS_KEY_ID", ""), keys.get("AWS_SECRET_ACCESS_KEY", "")
        for stated, used in (
            ("127.0.0.1:9000", f"127.0.0.1:{self._http}"),
            ("localhost:9000", f"localhost:{self._http}"),
            ("127.0.0.1:9001", f"127.0.0.1:{self._catalog}"),
            ("127.0.0.1:9123", f"127.0.0.1:{self._streams}"),
            ('"ACCESS_KEY"', repr(access_key)),
            ('"SECRET_KEY"', repr(secret_key)),
            ('"ID:SECRET"', repr(f"{access_key}:{secret_key}")),
        ):
            text = text.replace(stated, used)
        return text
