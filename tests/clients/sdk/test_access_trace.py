"""Uses of vended credentials and remote signatures, traced with the API and `lakebed trace`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from urllib3.filepost import encode_multipart_formdata

from lakebed.client import Delegation, LakebedClient, ObjectAccess, TableRef
from lakebed.core.errors import NotFound
from tests.client.conftest import access_to
from tests.clients.boto import REGION, Connect, Keys, connected, refused, root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.plain_http import fetch
from tests.clients.users import User, user_with_actions
from tests.fixtures.server import RunningServer, running_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Traced:
    """A server with an access log, a table `ns.t`, a user that may write it, and root's client."""

    lake: Lake
    engineer: User
    client: LakebedClient
    prefix: str
    """The key prefix of the table's directory."""

    @property
    def server(self) -> RunningServer:
        return self.lake.server

    def vended(self) -> Keys:
        answer = self.lake.call("GET", "namespaces/ns/tables/t/credentials", keys=self.engineer.keys)
        config = answer["storage-credentials"][0]["config"]
        return Keys(config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"])

    def signed(self, method: str, key: str) -> tuple[str, dict[str, str]]:
        """URL and headers of a request that the catalog signed for the engineer."""
        url = f"{self.server.endpoint}/{self.lake.warehouse}/{key}"
        request = {
            "region": REGION,
            "uri": url,
            "method": method,
            "headers": {"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]},
        }
        answer = self.lake.call("POST", "namespaces/ns/tables/t/sign", request, keys=self.engineer.keys)
        return url, {name: ",".join(values) for name, values in answer["headers"].items()}

    def accesses(self, key_id: str, enough: Callable[[list[ObjectAccess]], bool]) -> list[ObjectAccess]:
        """Accesses with an access key, once they and the delegation are flushed (within a second)."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            found = list(self.client.trace.accesses(key_id))
            is_complete = enough(found) and all(one.issue_recorded for one in found)
            if is_complete or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def log_lines(self, key_id: str) -> list[dict[str, Any]]:
        """The lines of the access log with this delegation."""
        lines = [json.loads(line) for line in self.server.log_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("delegation") == key_id]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    folder = tmp_path_factory.mktemp("traced")
    with running_server(folder / "data", "--set", "log.access=true", "--set", "log.format=json") as server:
        lake = new_lake(server)
        engineer = user_with_actions(server, folder, "s3tables:GetTableData", "s3tables:PutTableData", "sts:*")
        lake.call("POST", "namespaces", {"namespace": ["ns"]})
        made = lake.call("POST", "namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
        prefix = made["metadata"]["location"].removeprefix(f"s3://{lake.warehouse}/")
        with LakebedClient(access=access_to(server)) as client:
            yield Traced(lake, engineer, client, prefix)


def assert_traced_to(delegation: Delegation, traced: Traced) -> None:
    """Check principal, access key, table, prefixes and expiry."""
    assert (delegation.principal, delegation.arn) == (traced.engineer.name, traced.engineer.arn)
    assert delegation.obtained_with == traced.engineer.keys.access_key
    assert delegation.ref == TableRef(traced.lake.warehouse, ("ns",), "t")
    assert delegation.prefixes == [f"s3://{traced.lake.warehouse}/{traced.prefix}/"]
    assert 0 < delegation.expires_ms - delegation.issued_ms <= 900_000


def test_uses_of_vended_credentials_by_boto3_are_traced(traced: Traced, connect: Connect) -> None:
    keys, bucket, key = traced.vended(), traced.lake.warehouse, f"{traced.prefix}/data/a file.parquet"
    s3 = connect(traced.server, keys)
    s3.put_object(Bucket=bucket, Key=key, Body=b"some rows")
    for part in ("bytes=0-3", "bytes=5-8"):
        assert len(s3.get_object(Bucket=bucket, Key=key, Range=part)["Body"].read()) == 4
    with refused("AccessDenied", 403):
        s3.get_object(Bucket=bucket, Key="elsewhere")

    done = traced.accesses(keys.access_key, lambda found: sum(one.requests for one in found) == 4)
    delegation = traced.client.trace.delegation(keys.access_key)
    assert_traced_to(delegation, traced)
    assert (delegation.kind, delegation.actions) == ("vended-credentials", ["read", "write"])
    assert {(one.operation, one.status, one.key, one.requests, one.sent_bytes) for one in done if one.status < 300} == {
        ("PutObject", 200, key, 1, 0),
        ("GetObject", 206, key, 2, 8),
    }
    assert [(one.operation, one.key) for one in done if one.status == 403] == [("GetObject", "elsewhere")]
    by_object = list(traced.client.trace.object(bucket, key))
    assert {(one.operation, one.delegation, one.principal, one.request_id) for one in by_object} == {
        (operation, keys.access_key, traced.engineer.name, delegation.request_id)
        for operation in ("PutObject", "GetObject")
    }
    lines = traced.log_lines(keys.access_key)
    assert [(line["method"], line["principal"]) for line in lines] == [
        (method, traced.engineer.name) for method in ("PUT", "GET", "GET", "GET")
    ]
    assert {one.last_request_id for one in done} <= {line["request_id"] for line in lines}
    obtained = [line for line in traced.server.log_text().splitlines() if delegation.request_id in line]
    assert any("/credentials" in line for line in obtained)


def test_every_remote_signature_is_traced(traced: Traced) -> None:
    key = f"{traced.prefix}/data/signed"
    url, headers = traced.signed("PUT", key)
    assert fetch("PUT", url, headers=headers, body=b"written").status == 200
    reads = [traced.signed("GET", key) for _ in range(2)]
    for address, signed in reads:
        assert fetch("GET", address, headers=signed).body == b"written"
    ids = [sent["Authorization"].partition("Credential=")[2].partition("/")[0] for _, sent in [(url, headers), *reads]]
    assert len(set(ids)) == 3
    for key_id, method in zip(ids, ("PUT", "GET", "GET"), strict=True):
        (done,) = traced.accesses(key_id, lambda found: bool(found and found[0].table))
        delegation = traced.client.trace.delegation(key_id)
        assert_traced_to(delegation, traced)
        assert delegation.kind == "remote-signing"
        assert delegation.signed_request == f"{method} {traced.lake.warehouse}/{key}"
        assert ("write" in delegation.actions) is (method == "PUT")
        assert (done.operation, done.status, done.requests) == (f"{method.title()}Object", 200, 1)
        assert [line["method"] for line in traced.log_lines(key_id)] == [method]


def test_sessions_of_vended_credentials_are_traced_to_them(traced: Traced, connect: Connect) -> None:
    vended = traced.vended()
    sts = connect(traced.server, vended, service="sts")
    given = sts.get_session_token()["Credentials"]
    made = Keys(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    connect(traced.server, made).put_object(Bucket=traced.lake.warehouse, Key=f"{traced.prefix}/data/x", Body=b"x")
    done = traced.accesses(vended.access_key, lambda found: len(found) == 2)
    assert {(one.operation, one.status, one.requests) for one in done} == {
        ("SecurityToken", 200, 1),
        ("PutObject", 200, 1),
    }


def test_presigned_urls_and_forms_of_vended_credentials_are_traced(traced: Traced, connect: Connect) -> None:
    keys, bucket, key = traced.vended(), traced.lake.warehouse, f"{traced.prefix}/data/posted"
    s3 = connect(traced.server, keys)
    form = s3.generate_presigned_post(Bucket=bucket, Key=key)
    body, content_type = encode_multipart_formdata({**form["fields"], "file": ("f", b"rows")})
    assert fetch("POST", form["url"], headers={"content-type": content_type}, body=body).status == 204
    address = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key})
    assert fetch("GET", address).body == b"rows"
    done = traced.accesses(keys.access_key, lambda found: len(found) == 2)
    assert [(one.operation, one.status, one.key) for one in done] == [
        ("GetObject", 200, key),
        ("PostObject", 204, key),
    ]
    assert [(line["method"], line["principal"]) for line in traced.log_lines(keys.access_key)] == [
        ("POST", traced.engineer.name),
        ("GET", traced.engineer.name),
    ]


def test_access_keys_are_not_traced(traced: Traced) -> None:
    key = f"{traced.prefix}/data/roots"
    with connected(traced.server, root_keys(traced.server)) as s3:
        s3.put_object(Bucket=traced.lake.warehouse, Key=key, Body=b"")
    vended = traced.vended()
    with connected(traced.server, vended) as s3:
        s3.get_object(Bucket=traced.lake.warehouse, Key=key)
    traced.accesses(vended.access_key, bool)
    assert [one.operation for one in traced.client.trace.object(traced.lake.warehouse, key)] == ["GetObject"]


def test_trace_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    """A kill may lose the delegation record of the last second; uses of its credentials are traced anyway."""
    with running_server(tmp_path / "data", workers=1) as server:
        lake = new_lake(server)
        lake.call("POST", "namespaces", {"namespace": ["ns"]})
        made = lake.call("POST", "namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
        config = lake.call("GET", "namespaces/ns/tables/t/credentials")["storage-credentials"][0]["config"]
        server.kill()
    keys = Keys(config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"])
    key = f"{made['metadata']['location'].removeprefix(f's3://{lake.warehouse}/')}/data/f"
    with running_server(tmp_path / "data", workers=1) as again, LakebedClient(access=access_to(again)) as client:
        with connected(again, keys) as s3:
            s3.put_object(Bucket=lake.warehouse, Key=key, Body=b"x")
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := list(client.trace.object(lake.warehouse, key))) and time.monotonic() < deadline:
            time.sleep(0.05)
        (done,) = found
        assert (done.delegation, done.principal, done.operation) == (keys.access_key, "root", "PutObject")
        assert done.table_id
        assert done.request_id
        try:
            # On a slow machine, the kill may come after the flush.
            is_recorded = client.trace.delegation(keys.access_key).request_id == done.request_id
        except NotFound:
            is_recorded = False
        assert done.issue_recorded is is_recorded
        shown = lakebed(again, "key", keys.access_key)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert done.request_id in shown.stdout
        assert ("issue-not-recorded" in shown.stdout) is not is_recorded
        document = json.loads(lakebed(again, "key", keys.access_key, "--json").stdout)
        assert (document["id"], document["principal"]) == (keys.access_key, "root")


# -- from a shell ----------------------------------------------------------------------------------------------------


def lakebed(server: RunningServer, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LAKEBED_ENDPOINT": server.endpoint,
        "LAKEBED_ACCESS_KEY": server.access_key,
        "LAKEBED_SECRET_KEY": server.secret_key,
    }
    command = [sys.executable, "-m", "lakebed", "trace", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_trace_command_finds_the_uses_of_a_file(traced: Traced, connect: Connect) -> None:
    keys, bucket, key = traced.vended(), traced.lake.warehouse, f"{traced.prefix}/data/shell"
    connect(traced.server, keys).put_object(Bucket=bucket, Key=key, Body=b"x")
    traced.accesses(keys.access_key, bool)
    shown = lakebed(traced.server, "object", f"s3://{bucket}/{key}")
    assert (shown.returncode, shown.stderr) == (0, "")
    header, line = shown.stdout.splitlines()
    assert header.startswith("operation")
    assert line.split()[:6] == [
        "PutObject",
        "200",
        traced.engineer.name,
        f"{bucket}.ns.t",
        "vended-credentials",
        keys.access_key,
    ]
    of_key = json.loads(lakebed(traced.server, "key", keys.access_key, "--json").stdout)
    assert (of_key["principal"], of_key["accesses"][0]["key"]) == (traced.engineer.name, key)
    facts = lakebed(traced.server, "key", keys.access_key).stdout
    assert f"for table      {bucket}.ns.t" in facts
    listed = lakebed(
        traced.server, "list", "--principal", traced.engineer.name, "--warehouse", bucket, "--table", "ns.t"
    )
    assert keys.access_key in listed.stdout
    assert lakebed(traced.server, "list", "--principal", "unknown", "--json").stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("object", "not-an-address"), "s3://BUCKET/KEY"),
        (("key", "LKBTNOBODY"), "no delegation of that id"),
        (("list", "--table", "ns.t"), "a warehouse and NAMESPACE.TABLE"),
    ],
)
def test_usage_errors_are_one_line(traced: Traced, words: tuple[str, ...], message: str) -> None:
    refused = lakebed(traced.server, *words)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
