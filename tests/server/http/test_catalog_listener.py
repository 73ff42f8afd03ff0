"""A separate listener for the catalog and the other APIs: on the S3 listener, every bucket name and key works."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from lakebed.client import LakebedClient
from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import HostPort, ServerSettings, Settings, check_settings
from tests.clients.boto import all_keys, body_of, connected
from tests.clients.iceberg.lake import DELEGATION, Lake, new_lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.plain_http import fetch
from tests.clients.tls import make_certificate, running_tls_server
from tests.fixtures.ports import free_port
from tests.fixtures.server import RunningServer, running_server

KEYS = {
    "iceberg": ("v1/config", "v1/lake/namespaces", "v1/oauth/tokens", "polaris/v1/lake/applicable-policies"),
    "polaris": ("v1/lake/applicable-policies",),
    "api": ("catalog/v1/config", "management/v1/principals"),
    "health": ("live", "ready"),
    "lakebed": ("v1/tasks",),
    "metrics": ("metrics", "x"),
    "console": ("index.html", "a/b"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("apart") / "data"
    with running_server(folder, "--catalog-listen", f"127.0.0.1:{free_port()}", workers=2) as server:
        assert server.catalog_endpoint != server.endpoint
        yield server


@pytest.fixture
def s3(server: RunningServer) -> Iterator[Any]:
    with connected(server) as client:
        yield client


@pytest.mark.integration
def test_every_bucket_name_works_with_every_key(server: RunningServer, s3: Any) -> None:
    for bucket, keys in KEYS.items():
        s3.create_bucket(Bucket=bucket)
        for key in keys:
            s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
            assert body_of(s3, bucket, key) == key.encode()
            upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
            s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
            s3.copy_object(Bucket=bucket, Key=key + "/copy", CopySource={"Bucket": bucket, "Key": key})
        assert all_keys(s3, bucket) == sorted([*keys, *(f"{key}/copy" for key in keys)])
        for key in (*keys, *(f"{key}/copy" for key in keys)):
            s3.delete_object(Bucket=bucket, Key=key)
        s3.delete_bucket(Bucket=bucket)


@pytest.mark.integration
def test_health_and_metrics_are_on_the_catalog_listener(server: RunningServer) -> None:
    for path, expected in (
        ("/health/live", b"live"),
        ("/health/ready", b"ready"),
        ("/metrics", b"lakebed_connections"),
    ):
        there = fetch("GET", server.catalog_endpoint + path)
        assert (there.status, expected in there.body) == (200, True)
        assert fetch("GET", server.endpoint + path).code == "NoSuchBucket"


@pytest.mark.integration
def test_listener_refuses_requests_of_the_other_in_its_error_format(server: RunningServer) -> None:
    for path in ("/iceberg/v1/config", "/v1/config", "/lakebed/v1/tasks", "/api/management/v1/principals"):
        assert fetch("GET", server.catalog_endpoint + path).status == 401
        assert fetch("GET", server.endpoint + path).code == "NoSuchBucket"
    for method, path in (("GET", "/"), ("PUT", "/bucket"), ("GET", "/bucket/key"), ("POST", "/")):
        answer = fetch(method, server.catalog_endpoint + path)
        assert answer.status == 404
        assert json.loads(answer.body)["error"]["type"] == "NoSuchResourceException"
    unreadable = fetch("GET", server.catalog_endpoint + "/v1/config", headers={"Content-Length": "x"})
    assert (unreadable.status, json.loads(unreadable.body)["error"]["code"]) == (400, 400)


def token_of(server: RunningServer) -> str:
    form = f"grant_type=client_credentials&client_id={server.access_key}&client_secret={server.secret_key}"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = fetch("POST", f"{server.catalog_endpoint}/v1/oauth/tokens", headers=headers, body=form.encode())
    token: str = json.loads(answer.body)["access_token"]
    return token


@pytest.mark.integration
@pytest.mark.parametrize("mode", ["vended-credentials", "remote-signing"])
def test_pyiceberg_reads_and_writes_tables(server: RunningServer, mode: str) -> None:
    """The catalog is on one port and the files on the other: credentials and signatures are for the S3 listener."""
    lake = new_lake(server)
    settings = {"uri": f"{server.catalog_endpoint}/iceberg", "warehouse": lake.warehouse, "token": token_of(server)}
    with closing(RestCatalog("lake", **settings, **{DELEGATION: mode})) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(("ns", "t"), SCHEMA)
        assert table.io.properties["s3.endpoint"] == server.endpoint
        if mode == "remote-signing":
            assert table.io.properties["s3.signer.uri"] == f"{server.catalog_endpoint}/iceberg"
        table.append(people(1, 2, 3))
        assert ids_of(catalog.load_table(("ns", "t"))) == [1, 2, 3]


@pytest.mark.integration
def test_remote_signing_signs_for_the_s3_listener_only(server: RunningServer) -> None:
    lake = new_lake(server)
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    schema = SCHEMA.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = lake.call("POST", "namespaces/ns/tables", {"name": "t", "schema": schema})
    path = made["metadata"]["location"].removeprefix("s3://") + "/data/f"
    for endpoint, status in ((server.endpoint, 200), (server.catalog_endpoint, 400)):
        wanted: dict[str, Any] = {"region": "us-east-1", "uri": f"{endpoint}/{path}", "method": "GET", "headers": {}}
        answer = lake.request("POST", f"{lake.warehouse}/namespaces/ns/tables/t/sign", wanted)
        assert answer.status == status, answer.body


@pytest.mark.integration
def test_tokens_are_issued_and_accepted_on_the_catalog_listener(server: RunningServer) -> None:
    token = token_of(server)
    bearer = {"Authorization": f"Bearer {token}"}
    assert fetch("GET", f"{server.catalog_endpoint}/v1/config", headers=bearer).status == 200
    assert fetch("GET", f"{server.catalog_endpoint}/api/management/v1/principals", headers=bearer).status == 200


@pytest.mark.integration
def test_client_library_uses_both_listeners(server: RunningServer) -> None:
    with connected(server) as s3:
        s3.create_bucket(Bucket="objects")
        s3.put_object(Bucket="objects", Key="k", Body=b"body")
    with LakebedClient(
        server.catalog_endpoint,
        s3_endpoint=server.endpoint,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
    ) as client:
        assert client.objects.read("objects/k", 4) == b"body"
        assert [one.key for one in client.selects.objects("objects")] == ["k"]
        assert list(client.tasks.list()) == []


@pytest.mark.integration
def test_requests_spread_over_workers_from_both_listeners(server: RunningServer) -> None:
    """One channel per worker passes connections of both listeners, each marked with its listener."""
    for _ in range(8):
        assert fetch("GET", f"{server.catalog_endpoint}/health/live").body == b"live\n"
        assert fetch("GET", f"{server.endpoint}/").code == "AccessDenied"


@pytest.mark.integration
def test_startup_log_has_both_addresses(server: RunningServer) -> None:
    (ready,) = [json.loads(line) for line in server.log_text().splitlines() if '"ready"' in line]
    assert (ready["address"], ready["catalog"]) == (server.endpoint, server.catalog_endpoint)


@pytest.mark.integration
def test_both_listeners_serve_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate.certificate))
    with running_tls_server(tmp_path / "data", certificate, catalog_port=free_port()) as server:
        with urllib.request.urlopen(f"{server.catalog_endpoint}/health/live", context=trust) as answer:
            assert answer.read() == b"live\n"
        with connected(server, verify=str(certificate.certificate)) as s3:
            s3.create_bucket(Bucket="metrics")
            assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == ["metrics"]


def test_plain_http_beyond_this_machine_is_refused_for_either_listener(tmp_path: Path) -> None:
    open_catalog = ServerSettings(data=tmp_path, catalog_listen=HostPort("0.0.0.0", 9001))
    with pytest.raises(InvalidSetting, match=r"server\.catalog_listen: refusing plain HTTP beyond loopback"):
        check_settings(Settings(server=open_catalog))


def test_listeners_need_different_addresses(tmp_path: Path) -> None:
    twice = ServerSettings(data=tmp_path, catalog_listen=ServerSettings().listen)
    with pytest.raises(InvalidSetting, match=r"server\.catalog_listen: same address as server\.listen"):
        check_settings(Settings(server=twice))


@pytest.mark.integration
def test_table_bucket_may_have_the_name_of_a_path(server: RunningServer, s3: Any) -> None:
    s3.create_bucket(Bucket="metrics")
    lake = Lake(server, "metrics")
    assert lake.request("PUT", "buckets/metrics").status == 200
    with lake.catalog(mount="") as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(("ns", "t"), SCHEMA).append(people(1))
        assert ids_of(catalog.load_table(("ns", "t"))) == [1]
