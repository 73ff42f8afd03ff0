"""The machine as credential sources see it, all injectable: environment, clock, files, network, child processes."""

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
"""Long enough for a helper that calls a slow identity provider."""

ReadFile = Callable[[str], Awaitable[str | None]]
"""Reads a file; None if it does not exist. Raises Unavailable if it cannot be read."""

RunProcess = Callable[[str], Awaitable[bytes]]
"""The output of a command line. Raises Unavailable if it fails, InvalidSetting if it cannot be started."""


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """The machine as credential sources see it."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Clock
    http: Http
    read_file: ReadFile
    run_process: RunProcess

    @classmethod
    def of_this_machine(cls, environ: Mapping[str, str] | None = None, clock: Clock | None = None) -> HostEnvironment:
        """The real environment."""
        variables = os.environ if environ is None else environ
        return cls(
            environ=variables,
            clock=clock or SystemClock(),
            http=threaded_http(variables.get("AWS_CA_BUNDLE") or None),
            read_file=read_text_file,
            run_process=run_command_line,
        )

    def value(self, *names: str) -> str:
        """The first of these environment variables that is not empty, else an empty text."""
        return next((value for name in names if (value := self.environ.get(name, ""))), "")


async def read_text_file(path: str) -> str | None:
    """Read a file; None if it does not exist."""

    def read() -> str | None:
        try:
            return Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"file cannot be read. path={path} reason={type(error).__name__}") from None

    return await asyncio.to_thread(read)


async def run_command_line(command: str) -> bytes:
    """The output of a command, which is split like in a shell but not run by one."""
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # may contain secrets
        )
    except (OSError, ValueError, TypeError) as error:
        raise InvalidSetting(f"credential_process: cannot start. reason={type(error).__name__}") from None
    try:
        async with asyncio.timeout(PROCESS_TIMEOUT_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise Unavailable(f"credential_process: timed out. seconds={PROCESS_TIMEOUT_SECONDS:g}") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Unavailable(f"credential_process: failed. exit={process.returncode}")
    return output
