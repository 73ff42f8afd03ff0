"""`lakebed pipeline worker`: leases the server's tasks and runs them with Spark until it is stopped."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final

from lakebed.client import LakebedClient
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.core.sizes import parse_seconds

from ..server_access import add_access_flags, read_access
from ..settings_flags import read_settings

if TYPE_CHECKING:
    from lakebed.pipeline.worker import TaskResult

_LOOK_SECONDS: Final = 1.0


def configure_worker(words: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand. It sets `task`, a function of the arguments that returns the exit status."""
    text = "lease the server's tasks and run them with Spark, until stopped"
    parser = words.add_parser("worker", help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    parser.add_argument("--name", help="name of the worker (default: HOST:PID)")
    parser.add_argument(
        "--job", action="append", type=JobKind, choices=list(JobKind), metavar="JOB", help="only tasks of this job"
    )
    parser.add_argument("--idle", metavar="DURATION", help="exit after this long without a task")
    parser.add_argument("--with-parent", type=int, metavar="PID", help="exit when the parent process PID exits")
    add_access_flags(parser, warehouse=False)
    parser.set_defaults(task=_work)


def _work(arguments: argparse.Namespace) -> int:
    """Run the worker; 0 when it was stopped or became idle."""
    from lakebed.pipeline.spark.job_runner import SparkJobRunner
    from lakebed.pipeline.worker import Worker

    idle_seconds = None if arguments.idle is None else parse_seconds(arguments.idle)
    if idle_seconds == 0:
        raise InvalidInput("--idle must be longer than 0", argument="--idle")
    settings = read_settings(arguments).settings
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if arguments.with_parent is not None:
        threading.Thread(target=_watch_parent, args=(arguments.with_parent, stop), daemon=True).start()
    with LakebedClient(access=read_access(arguments, settings)) as client:
        engine = SparkJobRunner(client.access, settings.pipeline)
        name = arguments.name or f"{socket.gethostname()}:{os.getpid()}"
        print(f"worker {name} leases tasks from {client.access.endpoint}", flush=True)
        try:
            Worker(
                client.tasks,
                engine,
                name=name,
                kinds=arguments.job or list(JobKind),
                lease_seconds=settings.pipeline.lease,
                idle_seconds=idle_seconds,
                on_result=_print_result,
            ).run(stop)
        finally:
            engine.close()
    return 0


def _watch_parent(parent: int, stop: threading.Event) -> None:
    # The PID is an argument: read here at the start, it could be another's if the parent has exited already.
    while os.getppid() == parent and not stop.wait(_LOOK_SECONDS):
        pass
    stop.set()


def _print_result(ended: TaskResult) -> None:
    spec = ended.task.spec
    name = ".".join((spec.warehouse, *spec.namespace, spec.table))
    summary = ended.summary
    if ended.report is not None:
        saved = ended.report.saved
        summary = f"{summary} in {ended.report.seconds:.1f} s, {saved.files} files and {saved.bytes} bytes saved"
        summary += "".join(f"; {skipped.reason}" for skipped in ended.report.skipped[:1])
    print(f"{ended.task.kind} {name}: {summary}", flush=True)
