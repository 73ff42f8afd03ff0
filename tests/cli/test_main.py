from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from lakebed import __version__
from lakebed.cli.advice import advice_for
from lakebed.cli.main import COMMANDS, FAILED, INTERRUPTED
from lakebed.core import errors

from .conftest import Lakebed


def test_help_lists_every_command(lakebed: Lakebed) -> None:
    outcome = lakebed("--help")
    assert outcome.status == 0
    for command in COMMANDS:
        assert command.name in outcome.out
        assert command.text in outcome.out


def test_no_command_prints_the_help_and_fails(lakebed: Lakebed) -> None:
    outcome = lakebed()
    assert outcome.status == FAILED
    assert outcome.out.startswith("usage: lakebed")


def test_unknown_command_is_rejected(lakebed: Lakebed) -> None:
    outcome = lakebed("sevre")
    assert outcome.status == FAILED
    assert "invalid choice: 'sevre'" in outcome.err


def test_unknown_flag_is_rejected(lakebed: Lakebed) -> None:
    outcome = lakebed("serve", "--kafka-listen", "127.0.0.1:9092")
    assert outcome.status == FAILED
    assert "unrecognized arguments: --kafka-listen" in outcome.err


def test_flag_prefixes_are_rejected(lakebed: Lakebed) -> None:
    assert "unrecognized arguments: --insecure" in lakebed("serve", "--insecure").err


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_help(lakebed: Lakebed, command: str) -> None:
    outcome = lakebed(command, "--help")
    assert outcome.status == 0
    assert outcome.out.startswith(f"usage: lakebed {command}")


@pytest.mark.slow
def test_help_imports_only_the_entry_point() -> None:
    script = "import sys; from lakebed.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours = {name for name in done.stderr.split() if name.startswith("lakebed")}
    assert ours == {"lakebed", "lakebed.cli", "lakebed.cli.main"}
    assert {"asyncio", "msgspec", "rich", "tomllib"}.isdisjoint(done.stderr.split())


@pytest.mark.slow
def test_module_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "lakebed", "version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"lakebed {__version__} ")


def test_version_names_lakebed_and_python(lakebed: Lakebed) -> None:
    assert lakebed("version").out == f"lakebed {__version__} (Python {sys.version.split()[0]})\n"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Makes `lakebed version` raise the exception in the list."""
    raised: list[BaseException] = []

    def run(arguments: argparse.Namespace) -> int:
        raise raised[0]

    monkeypatch.setattr("lakebed.cli.version.run", run)
    return raised


def test_lakebed_error_is_one_line_with_advice(lakebed: Lakebed, failing: list[BaseException]) -> None:
    failing.append(errors.Unavailable("cannot connect.\ndetail=refused"))
    outcome = lakebed("version")
    assert outcome.status == FAILED
    assert outcome.err == (
        "lakebed: cannot connect. detail=refused. Check that the server runs and is reachable,"
        " then run the command again\n"
    )


def test_error_without_message_shows_its_class(lakebed: Lakebed, failing: list[BaseException]) -> None:
    failing.append(errors.Fenced())
    assert lakebed("version").err == "lakebed: Fenced\n"


def test_unexpected_exception_keeps_its_traceback(lakebed: Lakebed, failing: list[BaseException]) -> None:
    failing.append(ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        lakebed("version")


def test_interrupt_prints_nothing(lakebed: Lakebed, failing: list[BaseException]) -> None:
    failing.append(KeyboardInterrupt())
    outcome = lakebed("version")
    assert (outcome.status, outcome.err) == (INTERRUPTED, "")


@pytest.mark.slow
def test_closed_pipe_prints_no_error() -> None:
    command = [sys.executable, "-m", "lakebed", "config", "--defaults"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == FAILED


def test_advice_is_inherited_from_base_classes() -> None:
    assert advice_for(errors.InvalidName("wrong")) == advice_for(errors.InvalidInput("wrong"))
    assert advice_for(errors.InvalidSetting("wrong")) != advice_for(errors.InvalidInput("wrong"))
    assert advice_for(errors.NotModified()) == ""


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (errors.NoSuchPrincipal, "lakebed user list"),
        (errors.NoSuchAccessKey, "lakebed key list"),
        (errors.NoSuchUserPolicy, "lakebed policy list"),
        (errors.NoSuchCatalog, "lakebed table enable-bucket"),
        (errors.CredentialsExpired, "lakebed key create"),
        (errors.Unauthenticated, "LAKEBED_ACCESS_KEY"),
    ],
)
def test_not_found_advice_names_the_kind(error: type[errors.LakebedError], hint: str) -> None:
    assert hint in advice_for(error("wrong"))


def test_version_is_a_flag(lakebed: Lakebed) -> None:
    assert lakebed("--version").out == f"lakebed {__version__}\n"
