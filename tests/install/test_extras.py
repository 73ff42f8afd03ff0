"""The wheel in a new environment with each extra, and with all: commands and `serve` work."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from lakebed.cli.main import COMMANDS
from lakebed.core.extras import EXTRAS
from tests.fixtures.ports import free_port
from tests.fixtures.server import RunningServer
from tests.fixtures.spark import find_or_install_java

from .environments import Installation, install, root_keys, s3_client

pytestmark = [pytest.mark.heavy, pytest.mark.integration]

TARGETS: Final = sorted(extra for extra in EXTRAS if extra.startswith("targets-"))

SETTINGS: Final = {
    "amqp": 'url = "amqp://127.0.0.1:1"\nexchange = "lake"\nrouting_key = "lake"',
    "kafka": 'brokers = "127.0.0.1:1"\ntopic = "lake"',
    "mqtt": 'broker = "tcp://127.0.0.1:1"\ntopic = "lake"',
    "mysql": 'dsn_string = "lake:secret@tcp(127.0.0.1:1)/lake"\ntable = "events"\nformat = "access"',
    "nats": 'address = "nats://127.0.0.1:1"\nsubject = "lake"',
    "postgres": 'dsn_string = "postgresql://lake@127.0.0.1:1/lake"\ntable = "events"\nformat = "access"',
    "pulsar": 'broker = "pulsar://127.0.0.1:1"\ntopic = "lake"',
    "redis": 'url = "redis://127.0.0.1:1"\nkey = "lake"\nformat = "access"',
}
"""Settings of targets without servers: reading them imports the client libraries."""

Installed = Callable[[str], Installation]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Environments by extra, each created once."""
    made: dict[str, Installation] = {}

    def find(extra: str) -> Installation:
        if extra not in made:
            made[extra] = install(wheel, tmp_path_factory.mktemp(extra) / "env", extra)
        return made[extra]

    return find


@contextmanager
def _serving(
    installation: Installation, data: Path, *flags: str, environment: dict[str, str] | None = None
) -> Iterator[RunningServer]:
    server = installation.serve(data, *flags, environment=environment)
    try:
        yield server
        assert server.stop() == 0, server.log_text()
    finally:
        if server.process.poll() is None:
            server.kill()


def _target(kind: str) -> str:
    return f'[targets.named.{kind}]\ntype = "{kind}"\n[targets.named.{kind}.settings]\n{SETTINGS[kind]}\n'


def _at(server: RunningServer) -> tuple[str, ...]:
    return ("--endpoint", server.endpoint, "--data", str(server.data))


def _output_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("extra", ["all", "targets", *EXTRAS])
def test_every_command_has_help_unless_it_needs_another_extra(installed: Installed, extra: str) -> None:
    installation = installed(extra)
    brought = {name for name, modules in EXTRAS.items() if extra == "all" or {*modules} <= {*EXTRAS.get(extra, ())}}
    commands = [((command.name,), command.extra) for command in COMMANDS] + [(("pipeline", "run"), "pipeline")]
    outcomes = installation.run_together([(*words, "--help") for words, _ in commands])
    for (words, needed), outcome in zip(commands, outcomes, strict=True):
        if needed is None or needed in brought:
            assert (outcome.status, outcome.err) == (0, "")
            assert outcome.out.startswith(f"usage: lakebed {' '.join(words)}")
        else:
            assert f"needs the extra: pip install 'lakebed[{needed}]'" in outcome.err
            assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("extra", ["streams", "all"])
def test_streams_extra_serves_writes_and_reads(installed: Installed, tmp_path: Path, extra: str) -> None:
    installation = installed(extra)
    address = f"127.0.0.1:{free_port()}"
    with _serving(installation, tmp_path / "data", "--streams-listen", address) as server:
        at = ("--address", address, *_at(server))
        _output_of(installation.run("streams", "create", "clicks", "--column", "id:bigint", *at))
        _output_of(installation.run("streams", "produce", "clicks", *at, stdin='{"id":7}\n'))
        assert '{"id": 7}' in _output_of(
            installation.run("streams", "tail", "clicks", "--from-start", "--no-follow", *at)
        )


@pytest.mark.parametrize("extra", ["select", "all"])
def test_select_extra_queries_objects(installed: Installed, tmp_path: Path, extra: str) -> None:
    installation = installed(extra)
    with _serving(installation, tmp_path / "data") as server:
        store = s3_client(server)
        store.create_bucket(Bucket="lake")
        store.put_object(Bucket="lake", Key="a.csv", Body=b"1,one\n2,two\n")
        question = "SELECT s._2 FROM S3Object s WHERE s._1 = '2'"
        assert "two" in _output_of(installation.run("select", "s3://lake/a.csv", question, *_at(server)))


@pytest.mark.parametrize("extra", ["s3", "all"])
def test_s3_extra_uses_a_bucket_of_another_server(
    installed: Installed, lakebed_server: RunningServer, tmp_path: Path, extra: str
) -> None:
    bucket = f"under-{secrets.token_hex(6)}"
    environment = {
        "LAKEBED_STORAGE__KIND": "s3",
        "LAKEBED_STORAGE__S3__BUCKET": bucket,
        "LAKEBED_STORAGE__S3__ENDPOINT": lakebed_server.endpoint,
        "LAKEBED_STORAGE__S3__ALLOW_HTTP": "true",
        "LAKEBED_STORAGE__S3__ACCESS_KEY_ID": lakebed_server.access_key,
        "LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": lakebed_server.secret_key,
        "LAKEBED_OBJECTS__INLINE_MAX": "0",
    }
    outer = s3_client(lakebed_server)
    outer.create_bucket(Bucket=bucket)
    with _serving(installed(extra), tmp_path / "data", environment=environment) as server:
        inner = s3_client(server)
        inner.create_bucket(Bucket="lake")
        inner.put_object(Bucket="lake", Key="a", Body=b"kept elsewhere")
        assert inner.get_object(Bucket="lake", Key="a")["Body"].read() == b"kept elsewhere"
    assert outer.list_objects_v2(Bucket=bucket)["KeyCount"] > 0


@pytest.mark.parametrize("extra", ["postgres", "all"])
def test_postgres_extra_stores_metadata(installed: Installed, postgres_dsn: str, tmp_path: Path, extra: str) -> None:
    with _serving(installed(extra), tmp_path / "data", environment={"LAKEBED_META__URL": postgres_dsn}) as server:
        s3_client(server).create_bucket(Bucket="lake")
    assert not (tmp_path / "data" / "meta.db").exists()


@pytest.mark.parametrize("extra", [*TARGETS, "targets", "all"])
def test_target_extras_load_their_targets(installed: Installed, tmp_path: Path, extra: str) -> None:
    kinds = [each.removeprefix("targets-") for each in (TARGETS if extra in ("targets", "all") else [extra])]
    config = tmp_path / "lakebed.toml"
    config.write_text("\n".join(map(_target, kinds)))
    installation = installed(extra)
    with _serving(installation, tmp_path / "data", "--config", str(config)) as server:
        listed = json.loads(_output_of(installation.run("events", "target", "list", "--json", *_at(server))))
        assert {one["type"] for one in listed} == {*kinds}


@pytest.mark.parametrize("extra", ["conform", "all"])
def test_conform_extra_runs_conform(installed: Installed, tmp_path: Path, extra: str) -> None:
    installation = installed(extra)
    with _serving(installation, tmp_path / "data") as server:
        access_key, secret_key = root_keys(server)
        at = ("--endpoint", server.endpoint, "--access-key", access_key, "--secret-key", secret_key)
        _output_of(installation.run("conform", "--profile", "lakebed", "--cleanup", *at))


@pytest.mark.parametrize("extra", ["pipeline", "all"])
def test_pipeline_extra_runs_spark(installed: Installed, tmp_path: Path, extra: str) -> None:
    installation = installed(extra)
    with _serving(installation, tmp_path / "data") as server:
        s3_client(server).create_bucket(Bucket="lake")
        _output_of(installation.run("table", "enable-bucket", "lake", "--data", tmp_path / "data"))
        words = ("shell", "--warehouse", "lake", "--sql", "SELECT 40 + 2 AS sum", *_at(server))
        assert "42" in _output_of(installation.run(*words, environment={"JAVA_HOME": str(find_or_install_java())}))
