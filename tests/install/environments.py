"""New virtual environments with the built wheel, as after `pip install 'lakebed[…]'`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3

from tests.fixtures.ports import free_port
from tests.fixtures.server import RunningServer, wait_until_ready

REPOSITORY: Final = Path(__file__).parents[2]
_PINS: Final = REPOSITORY / "requirements" / "dev.txt"
_BUILT_FROM: Final = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
_UV: Final = str(Path(sys.executable).with_name("uv"))
_COMMAND_SECONDS: Final = 120.0


_RUN_TOGETHER: Final = """
import contextlib, io, json, sys
from lakebed.cli import main

outcomes = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    outcomes.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(outcomes))
"""


class Outcome(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment with the wheel and extras."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "lakebed"

    def run(
        self, *words: str | Path, environment: dict[str, str] | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `lakebed WORDS` in an empty folder."""
        return subprocess.run(
            [self.program, *words],
            cwd=self._empty_folder(),
            env=_environment(environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
        )

    def run_together(self, commands: Sequence[Sequence[str]]) -> list[Outcome]:
        """Run commands in one process, because starting Python takes most of their time."""
        done = subprocess.run(
            [self.folder / "bin" / "python", "-c", _RUN_TOGETHER, json.dumps(commands)],
            cwd=self._empty_folder(),
            env=_environment(None),
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return [Outcome(*each) for each in json.loads(done.stdout)]

    def serve(self, data: Path, *flags: str, environment: dict[str, str] | None = None) -> RunningServer:
        """Start `lakebed serve` and wait until it is ready."""
        port = free_port()
        log = data.with_suffix(".log")
        with log.open("ab") as output:
            process = subprocess.Popen(
                [self.program, "serve", "--data", data, "--listen", f"127.0.0.1:{port}", "--workers", "1", *flags],
                cwd=self._empty_folder(),
                env=_environment(environment),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        server = RunningServer(f"http://127.0.0.1:{port}", "", "", data, process, log)
        wait_until_ready(server)
        return server

    def _empty_folder(self) -> Path:
        folder = self.folder / "work"
        folder.mkdir(exist_ok=True)
        return folder


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, because compiling would replace files that other tests use."""
    source = folder / "source"
    shutil.copytree(REPOSITORY / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in _BUILT_FROM:
        shutil.copy(REPOSITORY / name, source)
    _uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, extra: str = "") -> Installation:
    """Create an environment with the wheel and one extra, with the pinned and hash-checked versions."""
    _uv("venv", "--python", sys.executable, "--no-project", folder)
    wanted = f"lakebed[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    _uv("pip", "install", "--python", folder / "bin" / "python", "--constraints", _PINS, "--verify-hashes", wanted)
    return Installation(folder)


def root_keys(server: RunningServer) -> tuple[str, str]:
    """Root's access key and secret: the fixture's, or those of the first start."""
    if server.access_key:
        return server.access_key, server.secret_key
    kept = json.loads((server.data / "secrets.json").read_text())
    return kept["root_access_key"], kept["root_secret_key"]


def s3_client(server: RunningServer) -> Any:  # Any: boto3 has no types
    """A boto3 client with root's credentials."""
    access_key, secret_key = root_keys(server)
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
    )


def _uv(*words: str | Path) -> None:
    done = subprocess.run([_UV, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _environment(more: dict[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBED_", "PYTHON"))}
    return {**kept, "LAKEBED_PIPELINE__EMBEDDED_WORKER": "off", **(more or {})}
