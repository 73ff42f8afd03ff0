"""What providers may see of the machine: environment, clock, files, network, child processes: all passed in."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.net.http import Http
from lakebed.net.sync_client import threaded_http

PROCESS_TIMEOUT_SECONDS = 60.0
"""Long enough for a helper that asks a slow identity provider."""

ReadFile = Callable[[str], Awaitable[str | None]]
"""The text of a file; None if it does not exist. Raises Unavailable when it exists and cannot be read."""

RunProcess = Callable[[str], Awaitable[bytes]]
"""What a command line prints. Raises Unavailable when it fails, InvalidSetting when it cannot be started."""


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """The machine as the providers see it."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Clock
    http: Http
    read_file: ReadFile
    run_process: RunProcess

    @classmethod
    def of_this_machine(cls, environ: Mapping[str, str] | None = None, clock: Clock | None = None) -> HostEnvironment:
        """The real ones."""
        seen = os.environ if environ is None else environ
        return cls(
            environ=seen,
            clock=clock or SystemClock(),
            http=threaded_http(seen.get("AWS_CA_BUNDLE") or None),
            read_file=read_text_file,
            run_process=run_command_line,
        )

    def value(self, *names: str) -> str:
        """The first of these environment variables that is set and not empty, else the empty text."""
        return next((value for name in names if (value := self.environ.get(name, ""))), "")


async def read_text_file(path: str) -> str | None:
    """The text of a file; None if it does not exist."""

    def read() -> str | None:
        try:
            return Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"file cannot be read. path={path} reason={type(error).__name__}") from None

    return await asyncio.to_thread(read)


async def run_command_line(command: str) -> bytes:
    """What a command prints. It is split as a shell would, but no shell runs it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # it may name secrets, and nobody reads it here
        )
    except (OSError, ValueError, TypeError) as error:
        raise InvalidSetting(f"credential_process: cannot be started. reason={type(error).__name__}") from None
    try:
        async with asyncio.timeout(PROCESS_TIMEOUT_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        raise Unavailable(f"credential_process: no answer. seconds={PROCESS_TIMEOUT_SECONDS:g}") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Unavailable(f"credential_process: failed. exit={process.returncode}")
    return printed
