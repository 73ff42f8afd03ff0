"""`lakebed events`, against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.client import LakebedClient
from tests.client.conftest import access_to
from tests.fixtures.server import RunningServer, running_server

from .conftest import Lakebed, Outcome

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("events") / "data", workers=1) as server:
        with LakebedClient(access=access_to(server)) as client:
            for path in ("/photos", "/photos/a", "/photos/b", "/logs", "/logs/a"):
                client._connection.call("PUT", path)
        yield server


@pytest.fixture
def run_command(server: RunningServer, lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> Lakebed:
    """Run a command against the server."""
    monkeypatch.setenv("LAKEBED_ENDPOINT", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    return lambda *words: lakebed("events", *words)


@pytest.fixture
def run_ok(run_command: Lakebed) -> Lakebed:
    def run(*words: str) -> Outcome:
        outcome = run_command(*words)
        assert outcome.status == 0, outcome.err
        return outcome

    return run


def test_events_are_filtered(run_ok: Lakebed) -> None:
    lines = run_ok("tail", "--no-follow", "--subject", "photos", "--kind", "ObjectCreated:*").out.splitlines()
    assert [line.split("  ")[2:] for line in lines] == [
        ["ObjectCreated:Put", "photos/a", "by root"],
        ["ObjectCreated:Put", "photos/b", "by root"],
    ]
    made = ("tail", "--no-follow", "--json", "--kind", "ObjectCreated:Put", "--kind", "Bucket*")
    documents = [json.loads(line) for line in run_ok(*made).out.splitlines()]
    assert [one["subject"] for one in documents] == ["photos", "photos/a", "photos/b", "logs", "logs/a"]
    later = run_ok(*made, "--after", str(documents[2]["seq"]), "--limit", "1").out.splitlines()
    assert [json.loads(line)["subject"] for line in later] == ["logs"]


def test_newest_events_are_shown_without_a_start(run_ok: Lakebed, server: RunningServer) -> None:
    with LakebedClient(access=access_to(server)) as client:
        client._connection.call("PUT", "/many")
        for number in range(12):
            client._connection.call("PUT", f"/many/{number:02}")

    def shown(*words: str) -> list[str]:
        lines = run_ok("tail", "--no-follow", "--json", "--subject", "many", *words).out.splitlines()
        return [json.loads(line)["subject"] for line in lines]

    keys = [f"many/{number:02}" for number in range(12)]
    assert shown() == keys[-10:]
    assert shown("--limit", "3") == keys[-3:]
    assert shown("--limit", "0") == []
    assert shown("--limit", "50") == ["many", *keys]
    assert shown("--after", "0", "--limit", "2") == ["many", keys[0]]


def test_start_is_a_number_or_an_id(run_ok: Lakebed, run_command: Lakebed) -> None:
    lines = run_ok("tail", "--no-follow", "--json", "--subject", "logs").out.splitlines()
    first, second = (json.loads(line) for line in lines)
    for place in (first["id"], str(first["seq"]), f"evt_{first['seq']}"):
        (after,) = run_ok("tail", "--no-follow", "--json", "--subject", "logs", "--after", place).out.splitlines()
        assert json.loads(after)["id"] == second["id"]
    refused = run_command("tail", "--no-follow", "--after", f"evt_{'a' * 26}_1")
    assert refused.status == 2
    assert "after is an event id of another deployment: start again from a number" in refused.err


def test_events_are_followed_up_to_the_limit(run_ok: Lakebed) -> None:
    filters = ("--kind", "ObjectCreated:*", "--principal", "root")
    lines = run_ok("tail", "--after", "0", "--limit", "3", *filters).out.splitlines()
    assert [line.split("  ")[3] for line in lines] == ["photos/a", "photos/b", "logs/a"]


def test_target_is_managed(run_ok: Lakebed, run_command: Lakebed, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("hunter2\n")
    made = run_ok(
        *(
            "target",
            "put",
            "r:webhook",
            "--option",
            "endpoint=http://127.0.0.1:9/x",
            "--option",
            f"auth_token=@{secret}",
        ),
        *("--option", "skip_tls_verify=true", "--kind", "Table*", "--kind", "UserCreated", "--audit"),
    ).out
    assert "hunter2" not in made
    assert "Table*, UserCreated, audit" in made
    assert run_ok("target", "arns").out.split() == ["arn:lakebed:sqs:us-east-1:r:webhook"]
    shown = run_ok("target", "show", "r:webhook", "--json").document
    assert shown["settings"] == {"endpoint": "http://127.0.0.1:9/x", "auth_token": "***", "skip_tls_verify": True}
    assert run_command("target", "test", "r:webhook").err.startswith("lakebed: r:webhook is not ready: no response")
    run_ok("target", "pause", "r:webhook")
    assert run_ok("target", "list").out.splitlines()[1].split()[:2] == ["r:webhook", "paused"]
    run_ok("target", "resume", "r:webhook")
    assert run_ok("target", "deliveries", "r:webhook", "--json").document == []
    assert run_ok("target", "redrive", "r:webhook", "--json").document == {"target": "r:webhook", "redriven": "0"}
    run_ok("target", "delete", "r:webhook")
    assert run_ok("target", "list", "--json").document == []


def test_generated_secret_is_printed_once(run_ok: Lakebed) -> None:
    made = run_ok("target", "put", "s:webhook", "--option", "endpoint=https://receiver.example/").out
    assert "(generated, shown only once)" in made
    assert "events of bucket rules only" in made
    again = run_ok("target", "put", "s:webhook", "--option", "endpoint=https://receiver.example/").out
    assert "whsec_" not in again
    run_ok("target", "delete", "s:webhook")


def test_errors_quote_no_secrets(run_command: Lakebed) -> None:
    for words, message in (
        (("target", "show", "r"), "a target is NAME:TYPE"),
        (("target", "show", "none:webhook"), "no such target"),
        (("target", "put", "r:webhook", "--option", "hunter2"), "an option is NAME=VALUE"),
        (("target", "put", "r:webhook", "--option", "secret=@/no/such/file"), "cannot be read"),
        (("target", "put", "r:pigeon", "--option", "a=b"), "unknown target type"),
    ):
        outcome = run_command(*words)
        assert outcome.status == 2
        assert message in outcome.err
        assert "hunter2" not in outcome.err
