"""The wheel in a new environment without extras: features that need one name it."""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from lakebed import __version__
from lakebed.cli.main import COMMANDS
from tests.fixtures.server import RunningServer

from .environments import REPOSITORY, Installation, install, s3_client

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REFUSED = 2


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return install(wheel, tmp_path_factory.mktemp("bare") / "env")


@pytest.fixture(scope="module")
def served(bare: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    server = bare.serve(tmp_path_factory.mktemp("served") / "data")
    yield server
    assert server.stop() == 0, server.log_text()


def _refusal(extra: str, needed_by: str) -> str:
    return rf"lakebed: {re.escape(needed_by)} needs the extra: pip install 'lakebed\[{extra}\]' \(missing: [\w., ]+\)\n"


@pytest.mark.parametrize("command", [command.name for command in COMMANDS if command.extra is None])
def test_every_command_has_help(bare: Installation, command: str) -> None:
    done = bare.run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: lakebed {command}")


def test_version_flag_prints_the_version(bare: Installation) -> None:
    assert bare.run("--version").stdout == f"lakebed {__version__}\n"
    assert bare.run("version").stdout == f"lakebed {__version__} (Python {sys.version.split()[0]})\n"


@pytest.mark.parametrize(
    ("words", "extra", "needed_by"),
    [
        (("streams", "--help"), "streams", "lakebed streams"),
        (("streams", "tail", "clicks"), "streams", "lakebed streams"),
        (("pipeline", "run", "--help"), "pipeline", "lakebed pipeline run"),
        (("pipeline", "run", "verify", "--table", "a.b"), "pipeline", "lakebed pipeline run"),
        (("shell",), "pipeline", "lakebed shell"),
        (("demo",), "demo", "the demo"),
    ],
    ids=" ".join,
)
def test_command_names_its_missing_extra(
    bare: Installation, words: tuple[str, ...], extra: str, needed_by: str
) -> None:
    done = bare.run(*words)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert re.fullmatch(_refusal(extra, needed_by), done.stderr), done.stderr


def test_conform_names_its_missing_extra(bare: Installation) -> None:
    done = bare.run("conform", "--access-key", "a", "--secret-key", "b")
    assert done.returncode == 1
    wanted = _refusal("conform", "a run of lakebed conform").removeprefix("lakebed")
    assert re.fullmatch(f"ERROR{wanted}", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("variables", "extra", "needed_by"),
    [
        ({"LAKEBED_STREAMS__LISTEN": "127.0.0.1:0"}, "streams", "streams.listen"),
        ({"LAKEBED_META__URL": "postgresql://lake@127.0.0.1:1/lake"}, "postgres", "meta.url: PostgreSQL"),
        (
            {"LAKEBED_STORAGE__KIND": "s3", "LAKEBED_STORAGE__S3__BUCKET": "lake"}
            | {"LAKEBED_STORAGE__S3__ACCESS_KEY_ID": "a", "LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": "b"}
            | {"LAKEBED_STORAGE__S3__REGION": "us-east-1"},
            "s3",
            "storage on S3",
        ),
    ],
    ids=["streams.listen", "meta.url", "storage.kind"],
)
def test_serve_names_the_missing_extra_of_a_setting(
    bare: Installation, tmp_path: Path, variables: dict[str, str], extra: str, needed_by: str
) -> None:
    done = bare.run("serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", environment=variables)
    assert done.returncode == REFUSED
    assert re.fullmatch(_refusal(extra, needed_by), done.stderr), done.stderr


@pytest.mark.parametrize("kind", ["amqp", "kafka", "mqtt", "mysql", "nats", "postgres", "pulsar", "redis"])
def test_serve_names_the_missing_extra_of_a_target(bare: Installation, tmp_path: Path, kind: str) -> None:
    config = tmp_path / "lakebed.toml"
    config.write_text(f'[targets.named.copy]\ntype = "{kind}"\n')
    done = bare.run("serve", "--config", config, "--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert done.returncode == REFUSED
    wanted = _refusal(f"targets-{kind}", f"targets.named.copy.type: target type {kind}")
    assert re.fullmatch(wanted, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("source", "extra", "needed_by"),
    [
        ("ns.table", "select", "a query over a table"),
        ("stream://fluss.clicks", "select", "a query over a stream table"),
    ],
)
def test_select_names_its_missing_extra(
    bare: Installation, served: RunningServer, source: str, extra: str, needed_by: str
) -> None:
    flags = () if "://" in source else ("--warehouse", "lake")
    done = bare.run(
        *("select", source, "SELECT 1", *flags, "--endpoint", served.endpoint, "--data", served.data),
    )
    assert done.returncode == REFUSED
    assert re.fullmatch(_refusal(extra, needed_by), done.stderr), done.stderr


def test_server_without_the_extra_rejects_a_select_by_name(bare: Installation, served: RunningServer) -> None:
    store = s3_client(served)
    store.create_bucket(Bucket="selected")
    store.put_object(Bucket="selected", Key="a.csv", Body=b"1,2\n")
    at = ("--endpoint", served.endpoint, "--data", served.data)
    done = bare.run("select", "s3://selected/a.csv", "SELECT * FROM S3Object s", *at)
    assert done.returncode == REFUSED
    assert "lakebed[select]" in done.stderr


def test_administration_commands_need_no_extra(bare: Installation, served: RunningServer) -> None:
    at = ("--data", served.data)
    remote = (*at, "--endpoint", served.endpoint)
    for words in (
        ("user", "list", *at),
        ("policy", "list", *at),
        ("token-key", "list", *at),
        ("pipeline", "tasks", *remote),
        ("events", "target", "list", *remote),
    ):
        done = bare.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_wheel_metadata_has_project_urls_and_every_extra(wheel: Path) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(opened.read(name).decode())
    addresses = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert addresses == project["urls"]
    assert addresses.keys() == {"Documentation", "Source", "Changelog", "Issues"}
    assert {*metadata.get_all("Provides-Extra", [])} == {*project["optional-dependencies"]}
