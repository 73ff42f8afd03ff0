"""The frame of the command line: which commands there are, and how each ends.

A command is a module with `configure(parser)` and `run(arguments)`. Only the chosen one is imported, so that
`lakebed --help` is at once and a command loads what it needs and no more.
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
"""Exit status of a command that was refused or failed."""

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as shells have it."""


@dataclass(frozen=True, slots=True)
class Command:
    """A word after `lakebed`, and the module behind it."""

    name: str
    module: str
    text: str
    extra: str | None = None
    """The extra that its module imports from. Commands that need one in some cases only see to that themselves."""


COMMANDS: Final = (
    Command("serve", "lakebed.cli.serve", "start the server"),
    Command("config", "lakebed.cli.config", "show the settings in force, and where each came from"),
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
    Command("storage", "lakebed.cli.storage", "show and change which deployment the object store is of"),
    Command("table", "lakebed.cli.table", "enable table buckets, restore and protect tables"),
    Command(
        "pipeline", "lakebed.cli.pipeline.command", "have Spark look after tables: compact, expire, import, verify"
    ),
    Command(
        "streams",
        "lakebed.cli.streams.command",
        "make stream tables, write and follow them, see what lags",
        extra="streams",
    ),
    Command("select", "lakebed.cli.select.command", "ask objects, tables and streams something in SQL"),
    Command("spark-config", "lakebed.cli.pipeline.spark_config", "write the configuration for a Spark of your own"),
    Command("shell", "lakebed.cli.pipeline.shell", "open a PySpark shell on the catalog"),
    Command("demo", "lakebed.cli.demo", "start a server of its own and show it working"),
    Command("check", "lakebed.cli.check", "try a store step by step, and say what is wrong with it"),
    Command("events", "lakebed.cli.events", "follow what happens, and say where events are sent"),
    Command("trace", "lakebed.cli.governance.trace", "trace file accesses to the vended credentials behind them"),
    Command("conform", "lakebed.cli.conform", "try a catalog with a real client; print what is claimed"),
    Command("version", "lakebed.cli.version", "print the version"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Errors of ours are one line on stderr, never a traceback."""
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
    except SystemExit as finished:  # argparse leaves this way, after --help as after a mistake
        return finished.code if isinstance(finished.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has enough. Python would complain at exit when it flushes: give it nowhere to flush to.
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
        own = commands.add_parser(
            command.name, help=command.text, description=_sentence(command.text), allow_abbrev=False
        )
        if command.name == chosen:
            if command.extra is not None:
                from lakebed.core.extras import require_extra

                require_extra(command.extra, f"lakebed {command.name}")
            module = importlib.import_module(command.module)
            module.configure(own)
            run = module.run
    return parser, run


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _one_line(error: LakebedError) -> str:
    """What happened, then what to do next."""
    from .advice import advice_for

    said = " ".join(str(error).split()) or type(error).__name__
    advice = advice_for(error)
    return f"{said.rstrip('.')}. {advice}" if advice else said
