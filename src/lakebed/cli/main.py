"""The entry point of the command line: the list of commands, and their exit status.

A command is a module with `configure(parser)` and `run(arguments)`. Only the chosen one is imported, so that
`lakebed --help` and the commands start fast.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakebed import __version__

if TYPE_CHECKING:
    from lakebed.core.errors import LakebedError

FAILED: Final = 2
"""Exit status of a failed command."""

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as in shells."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand and its module."""

    name: str
    module: str
    text: str
    extra: str | None = None
    """The extra that its module imports. Commands that need an extra only in some cases check it themselves."""


COMMANDS: Final = (
    Command("serve", "lakebed.cli.serve", "start the server"),
    Command("config", "lakebed.cli.config", "show the settings in effect and their origin"),
    Command("credentials", "lakebed.cli.governance.credentials", "show where root's credentials are"),
    Command("user", "lakebed.cli.governance.user", "create, list, disable and delete users"),
    Command("key", "lakebed.cli.governance.key", "create, list, rotate, disable and delete access keys"),
    Command("token-key", "lakebed.cli.governance.token_key", "list, rotate and revoke the signing keys of tokens"),
    Command("policy", "lakebed.cli.governance.policy", "attach access policies to users and detach them"),
    Command(
        "table-policy",
        "lakebed.cli.governance.table_policy",
        "preview what attaching a policy to tables would change",
    ),
    Command("label", "lakebed.cli.governance.label", "set tags and owners of entities, and find entities by them"),
    Command("storage", "lakebed.cli.storage", "show or change the deployment of the object store"),
    Command("table", "lakebed.cli.table", "enable table buckets, restore and protect tables"),
    Command("catalog", "lakebed.cli.catalog", "import the existing tables of a directory"),
    Command("pipeline", "lakebed.cli.pipeline.command", "maintain tables with Spark: compact, expire, import, verify"),
    Command(
        "streams",
        "lakebed.cli.streams.command",
        "create, write and tail stream tables; show tiering lag",
        extra="streams",
    ),
    Command("select", "lakebed.cli.select.command", "query objects, tables and streams in SQL"),
    Command(
        "spark-config", "lakebed.cli.pipeline.spark_config", "print or write the configuration for an external Spark"
    ),
    Command("shell", "lakebed.cli.pipeline.shell", "open a PySpark shell on the catalog"),
    Command("demo", "lakebed.cli.demo", "run a demo on a temporary server"),
    Command("check", "lakebed.cli.check", "test an object store step by step"),
    Command("events", "lakebed.cli.events", "tail the event log, and manage event targets"),
    Command("trace", "lakebed.cli.governance.trace", "trace file accesses to the vended credentials behind them"),
    Command("conform", "lakebed.cli.conform", "test a catalog with a real client; print claims"),
    Command("version", "lakebed.cli.version", "print the version"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status. A LakebedError is one line on stderr, not a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        chosen = next((word for word in words if not word.startswith("-")), None)
        parser, run = _parser(chosen)
        arguments = parser.parse_args(words)
        if run is None:
            parser.print_help()
            return FAILED
        status = run(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as finished:  # from argparse, after --help or an error
        return finished.code if isinstance(finished.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) closed the pipe. Redirect stdout, so that the flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        from lakebed.core.errors import LakebedError

        if not isinstance(error, LakebedError):
            raise
        print(f"lakebed: {_one_line(error)}", file=sys.stderr)
        return FAILED


def _parser(chosen: str | None) -> tuple[argparse.ArgumentParser, Callable[[argparse.Namespace], int] | None]:
    parser = argparse.ArgumentParser(
        prog="lakebed", description="A streaming lakehouse in one server.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"lakebed {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=chosen is not None)
    run: Callable[[argparse.Namespace], int] | None = None
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name, help=command.text, description=_sentence(command.text), allow_abbrev=False
        )
        if command.name == chosen:
            if command.extra is not None:
                from lakebed.core.extras import require_extra

                require_extra(command.extra, f"lakebed {command.name}")
            module = importlib.import_module(command.module)
            module.configure(subparser)
            run = module.run
    return parser, run


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _one_line(error: LakebedError) -> str:
    """The error, and advice on what to do next."""
    from .advice import advice_for

    text = " ".join(str(error).split()) or type(error).__name__
    advice = advice_for(error)
    return f"{text.rstrip('.')}. {advice}" if advice else text
