"""Virtual-host-style requests: the bucket is in the host name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.clients.boto import REGION, Connect, all_keys, body_of, refused
from tests.clients.plain_http import fetch
from tests.fixtures.server import RunningServer, running_server

pytestmark = pytest.mark.integration

DOMAIN = "lakebed.test"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("domains") / "data"
    with running_server(folder, "--set", f"server.domains={DOMAIN},other.test", workers=1) as server:
        yield server


@pytest.fixture
def by_host(server: RunningServer, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A virtual-host-style client. Names under the domain resolve to the server."""
    resolve = socket.getaddrinfo

    def resolve_to_server(host: Any, *arguments: Any, **options: Any) -> Any:  # Any: forwarded
        name = "127.0.0.1" if isinstance(host, str) and host.endswith(DOMAIN) else host
        return resolve(name, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_to_server)
    endpoint = f"http://{DOMAIN}:{server.port}"
    return connect(server, endpoint=endpoint, s3={"addressing_style": "virtual"})


def test_bucket_in_the_host_is_the_same_as_in_the_path(server: RunningServer, connect: Connect, by_host: Any) -> None:
    bucket, key = f"bucket-{uuid4().hex[:12]}", "a/b c+d/ä//../e"
    hosts = []
    by_host.meta.events.register("before-send.s3", lambda request, **_: hosts.append(request.url.split("/")[2]))
    by_host.create_bucket(Bucket=bucket)
    by_host.put_object(Bucket=bucket, Key=key, Body=b"1")
    assert set(hosts) == {f"{bucket}.{DOMAIN}:{server.port}"}
    by_path = connect(server)
    assert body_of(by_path, bucket, key) == b"1"
    assert all_keys(by_host, bucket) == [key]
    by_host.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": key})
    assert all_keys(by_path, bucket) == [key, "copy"]
    with refused("NoSuchKey", 404):
        by_host.get_object(Bucket=bucket, Key=f"{bucket}/{key}")


def test_host_without_a_bucket_lists_buckets(by_host: Any) -> None:
    bucket = f"bucket-{uuid4().hex[:12]}"
    by_host.create_bucket(Bucket=bucket)
    assert bucket in [item["Name"] for item in by_host.list_buckets()["Buckets"]]


def test_presigned_url_may_have_the_bucket_in_the_host(server: RunningServer, by_host: Any) -> None:
    bucket = f"bucket-{uuid4().hex[:12]}"
    by_host.create_bucket(Bucket=bucket)
    link = by_host.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    assert link.startswith(f"http://{bucket}.{DOMAIN}:{server.port}/k?")
    assert fetch("PUT", link, body=b"1").status == 200
    assert body_of(by_host, bucket, "k") == b"1"


def test_bucket_in_the_host_may_have_dots(by_host: Any) -> None:
    bucket = f"a.b.{uuid4().hex[:12]}"
    by_host.create_bucket(Bucket=bucket)
    by_host.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert body_of(by_host, bucket, "k") == b"1"


def test_host_of_another_domain_names_no_bucket(server: RunningServer) -> None:
    answer = fetch("GET", f"{server.endpoint}/no-such-bucket/k", headers={"Host": f"bucket.elsewhere.{REGION}.test"})
    assert answer.status in (403, 404)
    assert b"no-such-bucket" in answer.body
