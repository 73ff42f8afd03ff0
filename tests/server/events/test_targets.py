"""A running server with a webhook receiver in a separate process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import requests

from lakebed.client import LakebedClient
from lakebed.core.webhooks import new_secret
from tests.client.conftest import SCHEMA, access_to
from tests.clients.plain_http import fetch
from tests.fixtures.server import RunningServer, running_server, start_server
from tests.fixtures.webhook_receiver import Receiver, running_receiver

from ..running_processes import deliveries_of, kill_worker, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = new_secret()


def a_lake(server: RunningServer) -> LakebedClient:
    """Root's client of a server with a table bucket `lake` and a namespace `ns`."""
    client = LakebedClient(access=access_to(server))
    call = client._connection.call
    call("PUT", "/lake")
    call("PUT", "/iceberg/v1/buckets/lake")
    call("POST", "/iceberg/v1/lake/namespaces", document={"namespace": ["ns"]})
    return client


def post_to(client: LakebedClient, receiver: Receiver, *kinds: str) -> None:
    """Add a webhook target for the receiver."""
    client.targets.put("webhook", "r", {"endpoint": receiver.url, "secret": SECRET.reveal()}, kinds=kinds)


def make_table(client: LakebedClient, name: str) -> None:
    path = "/iceberg/v1/lake/namespaces/ns/tables"
    client._connection.call("POST", path, document={"name": name, "schema": SCHEMA})


def commit(client: LakebedClient, name: str, value: int) -> None:
    updates = [{"action": "set-properties", "updates": {"number": str(value)}}]
    path = f"/iceberg/v1/lake/namespaces/ns/tables/{name}"
    client._connection.call("POST", path, document={"requirements": [], "updates": updates})


def arrived(receiver: Receiver, *subjects: str) -> None:
    wait_until(lambda: set(subjects) <= set(receiver.subjects()), f"{subjects} arrive")


def test_events_are_posted_signed_and_with_their_operation(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data") as server,
        a_lake(server) as client,
    ):
        post_to(client, receiver, "Table*")
        make_table(client, "t")
        commit(client, "t", 1)
        wait_until(lambda: len(receiver.accepted()) == 2, "both events arrive")
        created, committed = receiver.accepted()
        assert (created["kind"], created["type"]) == ("TableCreated", "AFTER_CREATE_TABLE")
        assert (committed["kind"], committed["type"]) == ("TableCommitted", "AFTER_UPDATE_TABLE")
        assert committed["subject"] == "lake/ns/t"
        (found,) = [one for one in client.targets.list() if one.name == "r"]
        assert (found.waiting, found.dead) == (0, 0)
        # Counted once the cursor has moved, shortly after the delivery.
        sent = 'lakebed_target_delivered_events_total{target="r",type="webhook"} 2'
        wait_until(lambda: sent in requests.get(f"{server.endpoint}/metrics", timeout=60).text, "both are counted")


def test_operation_does_not_leak_to_later_requests_of_the_connection(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", workers=1) as server, a_lake(server) as client:
        make_table(client, "t")
        commit(client, "t", 1)
        client._connection.call("PUT", "/plain")
        client._connection.call("PUT", "/plain/key")
        events = {(event.kind, event.subject): event.type for event in client.events.read().events}
        assert events["TableCommitted", "lake/ns/t"] == "AFTER_UPDATE_TABLE"
        assert events["BucketCreated", "plain"] == ""
        assert events["ObjectCreated:Put", "plain/key"] == ""


def test_replayed_message_is_rejected(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data") as server,
        a_lake(server) as client,
    ):
        post_to(client, receiver, "TableCreated")
        make_table(client, "t")
        arrived(receiver, "lake/ns/t")
        (kept,) = receiver.requests()
        headers = {name: value for name, value in kept.headers.items() if name.lower().startswith("webhook-")}
        # At once: accepted as a duplicate, without effect.
        assert fetch("POST", receiver.url, headers=headers, body=kept.body).status == 200
        assert len(receiver.accepted()) == 1
        # Later, or with another timestamp or body: rejected.
        later = {**headers, "Webhook-Timestamp": str(int(time.time()) + 400)}
        later.pop("webhook-timestamp", None)
        assert fetch("POST", receiver.url, headers=later, body=kept.body).status == 401
        assert fetch("POST", receiver.url, headers=headers, body=kept.body + b" ").status == 401
        assert fetch("POST", receiver.url, headers={}, body=kept.body).status == 401
        assert len(receiver.accepted()) == 1


def test_recovered_receiver_gets_all_events_in_order(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data") as server,
        a_lake(server) as client,
    ):
        post_to(client, receiver, "Table*")
        receiver.break_down("lake/ns/a")
        for name in ("a", "b"):
            make_table(client, name)
        for number in range(3):
            commit(client, "a", number)
            commit(client, "b", number)
        # Other tables are not blocked.
        wait_until(lambda: receiver.subjects() == ["lake/ns/b"] * 4, "all of b arrives")
        wait_until(lambda: client.targets.get("webhook", "r").waiting == 4, "all of a waits")
        assert client.targets.get("webhook", "r").failure == "error response. status=500 reason=Internal Server Error"
        waiting = list(client.targets.undelivered("webhook", "r", "waiting"))
        assert [one.event.kind for one in waiting] == ["TableCreated"] + ["TableCommitted"] * 3
        receiver.recover()
        wait_until(lambda: client.targets.get("webhook", "r").waiting == 0, "what waited is delivered")
        of_a = [event for event in receiver.accepted() if event["subject"] == "lake/ns/a"]
        assert [event["seq"] for event in of_a] == sorted(event["seq"] for event in of_a)
        assert len(of_a) == 4


def test_dead_letter_is_listed_and_redriven(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data", "--set", "targets.max_attempts=1") as server,
        a_lake(server) as client,
    ):
        post_to(client, receiver, "TableCreated")
        receiver.break_down()
        make_table(client, "t")
        wait_until(lambda: client.targets.get("webhook", "r").dead == 1, "the event is given up")
        (dead,) = client.targets.undelivered("webhook", "r")
        assert (dead.event.subject, dead.attempts, dead.failure) == (
            "lake/ns/t",
            1,
            "error response. status=500 reason=Internal Server Error",
        )
        receiver.recover()
        assert client.targets.redrive("webhook", "r") == 1
        arrived(receiver, "lake/ns/t")
        wait_until(lambda: client.targets.get("webhook", "r").dead == 0, "nothing is left")


def test_no_event_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "receiver"
    server = start_server(tmp_path / "data")
    try:
        with running_receiver(folder, SECRET) as receiver, a_lake(server) as client:
            port = receiver.port
            post_to(client, receiver, "TableCreated")
            make_table(client, "t0")
            arrived(receiver, "lake/ns/t0")
        # The receiver is down: deliveries fail.
        with LakebedClient(access=access_to(server)) as client:
            make_table(client, "t1")
            wait_until(lambda: client.targets.get("webhook", "r").waiting == 1, "one waits")
            make_table(client, "t2")
        server.kill()
        server = start_server(tmp_path / "data", port=server.port)
        with running_receiver(folder, SECRET, port) as receiver, LakebedClient(access=access_to(server)) as client:
            make_table(client, "t3")
            arrived(receiver, *(f"lake/ns/t{number}" for number in range(4)))
            assert len(receiver.accepted()) == 4
    finally:
        server.kill()


def test_another_process_takes_over_after_a_kill(tmp_path: Path) -> None:
    with (
        running_receiver(tmp_path / "receiver", SECRET) as receiver,
        running_server(tmp_path / "data") as server,
        a_lake(server) as client,
    ):
        post_to(client, receiver, "TableCreated")
        make_table(client, "t0")
        arrived(receiver, "lake/ns/t0")
        for number in (1, 2):
            (killed,) = deliveries_of(server)
            kill_worker(killed)
            make_table(client, f"t{number}")
            arrived(receiver, f"lake/ns/t{number}")


def test_targets_of_the_settings_receive_events(tmp_path: Path) -> None:
    with running_receiver(tmp_path / "receiver", SECRET) as receiver:
        configured = f'{{endpoint = "{receiver.url}", secret = "{SECRET.reveal()}"}}'
        target = f'{{type = "webhook", settings = {configured}, kinds = ["AFTER_CREATE_TABLE"]}}'
        with (
            running_server(tmp_path / "data", LAKEBED_TARGETS__NAMED__R=target) as server,
            a_lake(server) as client,
        ):
            wait_until(lambda: client.targets.get("webhook", "r").after is not None, "it has its place")
            make_table(client, "t")
            # The metadata file is an object of the same operation.
            wait_until(lambda: "TableCreated" in [event["kind"] for event in receiver.accepted()], "it arrives")
            assert {event["type"] for event in receiver.accepted()} == {"AFTER_CREATE_TABLE"}
            assert client.targets.get("webhook", "r").origin == "settings"
            assert SECRET.reveal() not in server.log_text()


def test_http_hook_vetoes_and_the_audit_log_records_it(tmp_path: Path) -> None:
    with running_receiver(tmp_path / "receiver", SECRET) as receiver:
        url = receiver.url.replace("/events", "/veto")
        hook = f'{{url = "{url}", secret = "{SECRET.reveal()}", operations = ["DROP_*", "COMMIT_TRANSACTION"]}}'
        with (
            running_server(tmp_path / "data", LAKEBED_LISTENERS__HOOKS__REVIEW=hook) as server,
            a_lake(server) as client,
        ):
            make_table(client, "t")
            receiver.freeze("t")
            path = f"{server.endpoint}/iceberg/v1/lake/namespaces/ns/tables/t"
            refused = client._connection._send("DELETE", path.removeprefix(server.endpoint), {}, None, 0)
            assert refused.status == 403
            assert b"vetoed by review: t is under review" in refused.body
            assert client._connection.call("GET", path.removeprefix(server.endpoint)).status == 200
            wait_until(lambda: bool(client.audit.read(kinds=["AttemptVetoed"]).events), "it is in the trail")
            (event,) = client.audit.read(kinds=["AttemptVetoed"]).events
            assert (event.subject, event.payload["principal"]) == ("lake/ns/t", "root")
            receiver.freeze()
            assert client._connection.call("DELETE", path.removeprefix(server.endpoint)).status == 204


def test_python_listener_vetoes_and_an_invalid_one_prevents_the_start(tmp_path: Path) -> None:
    listener = "tests.governance.listeners.samples:Plain"
    with (
        running_server(tmp_path / "data", "--set", f"listeners.python={listener}") as server,
        a_lake(server) as client,
    ):
        make_table(client, "other")
        document = {"name": "orders", "schema": SCHEMA}
        refused = client._connection._send("POST", "/iceberg/v1/lake/namespaces/ns/tables", {}, document, 0)
        assert refused.status == 403
        assert b"on mondays never" in refused.body
    with pytest.raises(RuntimeError, match=r"listeners\.python: no\.such:Class"):
        start_server(tmp_path / "other", "--set", "listeners.python=no.such:Class")


def test_refused_attempts_are_recorded_before_an_immediate_stop(tmp_path: Path) -> None:
    server = start_server(tmp_path / "data")
    try:
        assert requests.get(f"{server.endpoint}/iceberg/v1/lake/namespaces", timeout=60).status_code == 401
        form = {"grant_type": "client_credentials", "client_id": "unknown", "client_secret": "guess"}
        token = requests.post(f"{server.endpoint}/api/catalog/v1/oauth/tokens", data=form, timeout=60)
        assert token.status_code == 401
        assert server.stop() == 0
        server = start_server(tmp_path / "data", port=server.port)
        with LakebedClient(access=access_to(server)) as client:
            events = client.audit.read(kinds=["Attempt*"]).events
        found = {(event.payload["edge"], event.payload["route"], event.subject) for event in events}
        assert found == {("catalog", "listNamespaces", "lake"), ("oauth", "getToken", "unknown")}
        assert {event.payload["source_ip"] for event in events} == {"127.0.0.1"}
    finally:
        server.kill()
