"""Buckets named like the first segment of an API path work for every key that is not a route of the API."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from urllib3 import encode_multipart_formdata

from tests.clients.boto import Connect, all_keys, body_of, connected
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.plain_http import fetch
from tests.clients.test_awscli import AwsCli
from tests.clients.test_awscli import Refused as CliRefused
from tests.clients.test_mc import Mc
from tests.clients.test_mc import Refused as McRefused
from tests.fixtures.mc import find_or_build_mc
from tests.fixtures.server import RunningServer, running_server

pytestmark = pytest.mark.integration

DOMAIN = "lakebed.test"
PAST_INLINE = b"x" * 300_000
PART = b"p" * (5 * 1024 * 1024)

RESERVED_KEYS = {
    "iceberg": "v1/config",
    "polaris": "v1/lake/applicable-policies",
    "api": "management/v1/principals",
    "health": "live",
    "lakebed": "v1/tasks",
}
"""Allowed bucket names, each with a key whose path is a route."""

FREE_KEYS = ("a", "v1", "v1/data/part 0.parquet", "v1/config.json", "ready.txt", "catalog/x", "ä/+/b")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("reserved") / "data"
    with running_server(folder, "--set", f"server.domains={DOMAIN}", workers=1) as server:
        with connected(server) as s3:
            for bucket in RESERVED_KEYS:
                s3.create_bucket(Bucket=bucket)
        yield server


@pytest.fixture
def by_path(server: RunningServer, connect: Connect) -> Any:
    return connect(server)


@pytest.fixture
def by_host(server: RunningServer, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A virtual-host-style client. Names under the domain resolve to the server."""
    resolve = socket.getaddrinfo

    def resolve_to_server(host: Any, *arguments: Any, **options: Any) -> Any:  # Any: forwarded
        name = "127.0.0.1" if isinstance(host, str) and host.endswith(DOMAIN) else host
        return resolve(name, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_to_server)
    return connect(server, endpoint=f"http://{DOMAIN}:{server.port}", s3={"addressing_style": "virtual"})


@pytest.fixture(params=["path", "host"])
def s3(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"by_{request.param}")


@pytest.mark.parametrize("bucket", RESERVED_KEYS)
def test_bucket_works_for_every_other_key(s3: Any, bucket: str) -> None:
    for key in FREE_KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        assert body_of(s3, bucket, key) == key.encode()
        assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(key.encode())
    assert set(FREE_KEYS) <= set(all_keys(s3, bucket))
    assert [one["Key"] for one in s3.list_objects(Bucket=bucket, Prefix="v1/")["Contents"]] == [
        "v1/config.json",
        "v1/data/part 0.parquet",
    ]
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "a"})
    upload = s3.create_multipart_upload(Bucket=bucket, Key="v1/large")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="v1/large", UploadId=upload, PartNumber=1, Body=PART)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="v1/large", UploadId=upload, MultipartUpload=parts)
    assert s3.head_object(Bucket=bucket, Key="v1/large")["ContentLength"] == len(PART)
    doomed = [{"Key": key} for key in (*FREE_KEYS, "copy", "v1/large")]
    assert "Errors" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed})
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize(("bucket", "key"), RESERVED_KEYS.items())
def test_key_of_a_route_is_refused_with_the_reason(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=PAST_INLINE)
    for write, more in (
        (s3.put_object, {"Body": b"1"}),
        (s3.put_object, {"Body": PAST_INLINE}),
        (s3.copy_object, {"CopySource": {"Bucket": bucket, "Key": "source"}}),
        (s3.create_multipart_upload, {}),
    ):
        with pytest.raises(ClientError) as refused:
            write(Bucket=bucket, Key=key, **more)
        error = refused.value.response["Error"]
        assert error["Code"] == "InvalidArgument"
        assert error["Message"].startswith(f"the key is reserved in this bucket: /{bucket}/{key} is a path of")
        assert "server.catalog_listen" in error["Message"]
    s3.delete_object(Bucket=bucket, Key="source")
    assert all_keys(s3, bucket) == []


def test_form_upload_of_a_reserved_key_is_refused(server: RunningServer, by_path: Any) -> None:
    for key, status in (("v1/config", 400), ("v1/config.json", 204)):
        form = by_path.generate_presigned_post("iceberg", key)
        body, content_type = encode_multipart_formdata({**form["fields"], "file": ("f", b"1")})
        answer = fetch("POST", form["url"], headers={"Content-Type": content_type}, body=body)
        assert answer.status == status, answer.body
    by_path.delete_object(Bucket="iceberg", Key="v1/config.json")


@pytest.mark.parametrize("bucket", ["metrics", "console"])
def test_reserved_bucket_name_is_refused_with_the_reason(s3: Any, bucket: str) -> None:
    with pytest.raises(ClientError) as refused:
        s3.create_bucket(Bucket=bucket)
    error = refused.value.response["Error"]
    assert error["Code"] == "InvalidBucketName"
    assert f"the name is reserved: /{bucket} is a path of the server's own APIs" in error["Message"]


def test_presigned_url_of_a_reserved_key_is_refused(server: RunningServer, by_path: Any) -> None:
    link = by_path.generate_presigned_url("put_object", Params={"Bucket": "iceberg", "Key": "v1/config"})
    answer = fetch("PUT", link, body=b"1")
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_apis_respond_while_buckets_have_their_names(server: RunningServer, by_path: Any) -> None:
    by_path.put_object(Bucket="iceberg", Key="v1/config.json", Body=b"1")
    for path in ("/iceberg/v1/config", "/v1/config", "/api/catalog/v1/config"):
        answer = fetch("GET", server.endpoint + path)
        assert (answer.status, answer.headers["content-type"]) == (401, "application/json")
    assert fetch("GET", f"{server.endpoint}/health/live").body == b"live\n"
    assert b"lakebed_connections" in fetch("GET", f"{server.endpoint}/metrics").body
    by_path.delete_object(Bucket="iceberg", Key="v1/config.json")


def test_virtual_host_style_key_is_never_an_api_route(by_path: Any, by_host: Any, server: RunningServer) -> None:
    by_path.create_bucket(Bucket="plain")
    for key in ("v1/config", "metrics", "health/live", "iceberg/v1/config", "v1/lake/namespaces"):
        by_host.put_object(Bucket="plain", Key=key, Body=key.encode())
        assert body_of(by_host, "plain", key) == body_of(by_path, "plain", key) == key.encode()
        by_host.delete_object(Bucket="plain", Key=key)


def test_table_bucket_may_have_such_a_name(server: RunningServer, by_path: Any) -> None:
    """PyIceberg signs catalog requests for the service `s3`; paths distinguish them from S3 requests."""
    lake = Lake(server, "iceberg")
    assert lake.request("PUT", "buckets/iceberg").status == 200
    for mount in ("/iceberg", "", "/api/catalog"):
        with lake.catalog(mount=mount) as catalog:
            catalog.create_namespace("ns")
            table = catalog.create_table(("ns", "t"), SCHEMA)
            table.append(people(1, 2))
            assert ids_of(catalog.load_table(("ns", "t"))) == [1, 2]
            assert all_keys(by_path, "iceberg", "tables/")
            catalog.purge_table(("ns", "t"))
            catalog.drop_namespace("ns")


@pytest.mark.slow
def test_aws_cli_and_mc_work_with_such_buckets(server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(PAST_INLINE)
    cli = AwsCli(server, tmp_path)
    cli.run("s3", "cp", file, "s3://iceberg/v1/data/file")
    mc = Mc(find_or_build_mc(), server, tmp_path)
    mc.run("cp", file, "lakebed/iceberg/v1/data/second")
    assert sorted(one["key"] for one in mc.run("ls", "lakebed/iceberg/v1/data/")) == ["file", "second"]
    with pytest.raises(CliRefused, match="reserved in this bucket"):
        cli.run("s3", "cp", file, "s3://iceberg/v1/config")
    with pytest.raises(McRefused):
        mc.run("cp", file, "lakebed/health/live")
    cli.run("s3", "rm", "--recursive", "s3://iceberg/v1/")
