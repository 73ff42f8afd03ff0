"""PyIceberg on catalogs over an external MinIO: the client reads and writes the store, with temporary keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pyarrow as pa
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, ServiceUnavailableError

from tests.clients.boto import Keys
from tests.clients.iceberg.external_lake import ExternalLake
from tests.clients.iceberg.lake import DELEGATION, Lake
from tests.clients.users import user_with_actions
from tests.fixtures.minio import MinioServer, find_or_build_minio, running_minio
from tests.fixtures.ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
SCHEMA = ROWS.schema


@pytest.fixture
def bucket(external: ExternalLake) -> str:
    return external.minio.make_bucket()


@pytest.fixture
def lake(external: ExternalLake, bucket: str) -> Lake:
    return external.create_catalog(f"c-{bucket}", bucket)


def store_client(external: ExternalLake, settings: dict[str, str]) -> Any:
    """A client of MinIO with vended credentials."""
    return boto3.client(
        "s3",
        endpoint_url=external.minio.endpoint,
        aws_access_key_id=settings["s3.access-key-id"],
        aws_secret_access_key=settings["s3.secret-access-key"],
        aws_session_token=settings["s3.session-token"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


def vended(lake: Lake, table: str, keys: Keys | None = None) -> dict[str, str]:
    """The settings of vended credentials for a table."""
    document = json.loads(
        lake.request("GET", f"{lake.warehouse}/namespaces/ns/tables/{table}/credentials", keys=keys).body
    )
    (credential,) = document["storage-credentials"]
    settings: dict[str, str] = credential["config"]
    return settings


def test_table_lives_in_the_external_store(external: ExternalLake, lake: Lake, bucket: str) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", schema=SCHEMA)
        assert table.io.properties["s3.endpoint"] == external.minio.endpoint
        for _ in range(3):
            table.append(ROWS)
        table.delete("id = 1")
        with table.update_schema() as update:
            update.add_column("more", pa_type())
        loaded = catalog.load_table("ns.t")
        assert loaded.scan().to_arrow().num_rows == 6
        assert loaded.location().startswith(f"s3://{bucket}/wh/tables/")
    kept = external.keys_in(bucket)
    assert sum(key.endswith(".metadata.json") for key in kept) == 6
    assert sum("/data/" in key for key in kept) >= 3


def pa_type() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def test_only_the_client_transfers_data_with_temporary_keys(external: ExternalLake, lake: Lake) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", schema=SCHEMA)
        table.append(ROWS)
        assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 3
        folder = table.location().partition("://")[2].partition("/")[2]
    external.audit.wait_for(
        lambda each: each.key.startswith(folder) and each.api == "GetObject" and "/data/" in each.key
    )
    mine = [each for each in external.audit.requests if each.key.startswith(folder)]
    data = [each for each in mine if "/data/" in each.key]
    assert {each.api for each in data} >= {"GetObject"}
    assert all(each.access_key != external.minio.access_key_id for each in data if each.api != "HeadObject")
    by_server = {each.api for each in data if each.access_key == external.minio.access_key_id}
    # The server looks up the added file, and reads none.
    assert by_server <= {"HeadObject"}
    assert any(each.access_key == external.minio.access_key_id for each in mine if "/metadata/" in each.key)


def test_credentials_cover_exactly_the_table(external: ExternalLake, lake: Lake, bucket: str) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table("ns.t", schema=SCHEMA, location=f"s3://{bucket}/wh/t").append(ROWS)
        catalog.create_table("ns.t10", schema=SCHEMA, location=f"s3://{bucket}/wh/t10").append(ROWS)
    client = store_client(external, vended(lake, "t"))
    (mine,) = external.keys_in(bucket, "wh/t/data/")
    (other,) = external.keys_in(bucket, "wh/t10/data/")
    assert client.get_object(Bucket=bucket, Key=mine)["ContentLength"] > 0
    client.put_object(Bucket=bucket, Key="wh/t/data/new", Body=b"x")
    assert client.list_objects_v2(Bucket=bucket, Prefix="wh/t/")["KeyCount"] > 0
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: client.get_object(Bucket=bucket, Key=other),
        lambda: client.put_object(Bucket=bucket, Key=other, Body=b"x"),
        lambda: client.delete_object(Bucket=bucket, Key=other),
        lambda: client.put_object(Bucket=bucket, Key="wh/t/../t10/x", Body=b"x"),
        lambda: client.put_object(Bucket=bucket, Key="elsewhere", Body=b"x"),
        lambda: client.list_objects_v2(Bucket=bucket),
        lambda: client.list_objects_v2(Bucket=bucket, Prefix="wh/t"),
        lambda: client.create_bucket(Bucket="another-bucket"),
    )
    for attempt in attempts:
        with pytest.raises(ClientError):
            attempt()
    assert external.keys_in(bucket, "wh/t10/data/") == [other]


@pytest.mark.parametrize("name", ["*", "?", "a*", "${aws:username}"])
def test_names_with_wildcards_open_no_neighbour(external: ExternalLake, lake: Lake, bucket: str, name: str) -> None:
    refused = lake.request(
        "POST",
        f"{lake.warehouse}/namespaces",
        {"namespace": ["ns"]},
    )
    assert refused.status == 200
    made = lake.request(
        "POST",
        f"{lake.warehouse}/namespaces/ns/tables",
        {"name": name, "location": f"s3://{bucket}/wh/{name}", "schema": {"type": "struct", "fields": []}},
    )
    if made.status != 200:
        assert made.status == 400, made.body
        return
    with lake.catalog() as catalog:
        catalog.create_table("ns.neighbour", schema=SCHEMA, location=f"s3://{bucket}/wh/abc").append(ROWS)
    client = store_client(external, vended(lake, quote(name, safe="")))
    with pytest.raises(ClientError):
        client.get_object(Bucket=bucket, Key=external.keys_in(bucket, "wh/abc/data/")[0])


def test_reader_cannot_write(external: ExternalLake, lake: Lake, bucket: str, tmp_path: Path) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table("ns.t", schema=SCHEMA).append(ROWS)
    analyst = user_with_actions(external.server, tmp_path, "s3tables:GetTableData")
    client = store_client(external, vended(lake, "t", analyst.keys))
    (data,) = [key for key in external.keys_in(bucket) if "/data/" in key]
    assert client.get_object(Bucket=bucket, Key=data)["ContentLength"] > 0
    for change in (client.put_object, client.delete_object):
        with pytest.raises(ClientError, match="AccessDenied"):
            change(Bucket=bucket, Key=data)
    stranger = user_with_actions(external.server, tmp_path, "s3tables:ListTables")
    refused = lake.request("GET", f"{lake.warehouse}/namespaces/ns/tables/t/credentials", keys=stranger.keys)
    assert refused.status == 403


def test_store_without_sts_is_used_by_remote_signing(external: ExternalLake, bucket: str) -> None:
    lake = external.create_catalog(f"signed-{bucket}", bucket, stsUnavailable=True)
    # PyIceberg authenticates its requests for signatures with a token only.
    uri = f"{external.server.endpoint}/iceberg"
    settings: dict[str, Any] = {
        "uri": uri,
        "warehouse": lake.warehouse,
        "credential": f"{external.server.access_key}:{external.server.secret_key}",
        "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
    }
    with closing(RestCatalog("signed", **settings)) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", schema=SCHEMA)
        assert "s3.secret-access-key" not in table.io.properties
        assert table.io.properties["s3.remote-signing-enabled"] == "true"
        table.append(ROWS)
        assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 3
    answer = lake.request("GET", f"{lake.warehouse}/namespaces/ns/tables/t/credentials")
    assert json.loads(answer.body)["storage-credentials"] == []


@pytest.mark.parametrize(
    "uri",
    [
        "{endpoint}/{bucket}/wh/other/x",
        "{endpoint}/{bucket}/elsewhere",
        "{endpoint}/{bucket}/wh/t/../other/x",
        "{endpoint}/{bucket}/wh/t%2F..%2Fother/x",
        "{endpoint}/other-bucket/wh/t/x",
        "http://169.254.169.254/latest/meta-data",
        "{endpoint}/{bucket}?list-type=2&prefix=wh/t",
        "{endpoint}/{bucket}?policy",
        "{endpoint}/",
    ],
)
def test_requests_outside_the_table_are_not_signed(external: ExternalLake, bucket: str, uri: str) -> None:
    lake = external.create_catalog(f"s-{bucket}", bucket, stsUnavailable=True)
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    schema = {"type": "struct", "fields": []}
    for name in ("t", "other"):
        lake.call(
            "POST", "namespaces/ns/tables", {"name": name, "location": f"s3://{bucket}/wh/{name}", "schema": schema}
        )
    document = {
        "region": "us-east-1",
        "uri": uri.format(endpoint=external.minio.endpoint, bucket=bucket),
        "method": "GET",
        "headers": {},
    }
    for path in ("namespaces/ns/tables/t/sign", "v1/aws/s3/sign"):
        refused = lake.request("POST", f"{lake.warehouse}/{path}", document)
        if path.endswith("t/sign") or "/wh/other/" not in document["uri"]:
            assert refused.status in (400, 403), refused.body
    allowed = document | {"uri": f"{external.minio.endpoint}/{bucket}/wh/t/x"}
    assert lake.request("POST", f"{lake.warehouse}/namespaces/ns/tables/t/sign", allowed).status == 200


def test_bucket_of_the_same_name_on_this_server_is_another_one(external: ExternalLake, lake: Lake, bucket: str) -> None:
    own = boto3.client(
        "s3",
        endpoint_url=external.server.endpoint,
        aws_access_key_id=external.server.access_key,
        aws_secret_access_key=external.server.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    own.create_bucket(Bucket=bucket)
    assert bucket in {each["Name"] for each in own.list_buckets()["Buckets"]}
    assert not any("/" in each["Name"] for each in own.list_buckets()["Buckets"])
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t",
            schema=SCHEMA,
            location=f"s3://{bucket}/wh/t",
            properties={
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "1",
            },
        )
        metadata = table.metadata_location.partition("://")[2].partition("/")[2]
        own.put_object(Bucket=bucket, Key=metadata, Body=b"of this server")
        for _ in range(3):
            table.append(ROWS)
        assert metadata not in external.keys_in(bucket)
        catalog.purge_table("ns.t")
    deadline = time.monotonic() + 30
    while external.keys_in(bucket, "wh/t/") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert external.keys_in(bucket, "wh/t/") == []
    assert own.get_object(Bucket=bucket, Key=metadata)["Body"].read() == b"of this server"
    own.delete_object(Bucket=bucket, Key=metadata)
    own.delete_bucket(Bucket=bucket)


def test_purge_keeps_files_that_the_table_does_not_refer_to(external: ExternalLake, lake: Lake, bucket: str) -> None:
    with external.minio.client() as client, lake.catalog() as catalog:
        catalog.create_namespace("ns")
        catalog.create_table("ns.t", schema=SCHEMA, location=f"s3://{bucket}/wh/t").append(ROWS)
        client.put_object(Bucket=bucket, Key="wh/t/of-someone-else", Body=b"x")
        client.put_object(Bucket=bucket, Key="wh/neighbour", Body=b"x")
        catalog.purge_table("ns.t")
    deadline = time.monotonic() + 30
    while len(external.keys_in(bucket)) > 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert external.keys_in(bucket) == ["wh/neighbour", "wh/t/of-someone-else"]


def test_locations_with_files_require_permission_on_the_catalog(
    external: ExternalLake, lake: Lake, bucket: str, tmp_path: Path
) -> None:
    with external.minio.client() as client:
        client.put_object(Bucket=bucket, Key="wh/payroll/2026.parquet", Body=b"secret")
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    writer = user_with_actions(
        external.server, tmp_path, "s3tables:CreateTable", "s3tables:GetTable", "s3tables:GetTableBucket"
    )
    with lake.catalog(writer.keys, properties={DELEGATION: ""}) as catalog:
        with pytest.raises(ForbiddenError, match="permission on the data of all tables"):
            catalog.create_table("ns.t", schema=SCHEMA, location=f"s3://{bucket}/wh/payroll")
        catalog.create_table("ns.u", schema=SCHEMA, location=f"s3://{bucket}/wh/empty")
    with lake.catalog() as catalog:
        catalog.create_table("ns.t", schema=SCHEMA, location=f"s3://{bucket}/wh/payroll")


@pytest.mark.parametrize("location", ["wh2/t", "elsewhere", "wh", "wh/../other/t", ".lakebed/t"])
def test_locations_outside_the_catalog_are_rejected(
    external: ExternalLake, lake: Lake, bucket: str, location: str
) -> None:
    lake.call("POST", "namespaces", {"namespace": ["ns"]})
    document = {
        "name": "t",
        "location": f"s3://{bucket}/{location}",
        "schema": {"type": "struct", "fields": []},
    }
    refused = lake.request("POST", f"{lake.warehouse}/namespaces/ns/tables", document)
    assert refused.status == 400, refused.body
    inside = document | {"location": f"s3://{bucket}/wh/t"}
    redirected = inside | {"properties": {"write.data.path": document["location"]}}
    assert lake.request("POST", f"{lake.warehouse}/namespaces/ns/tables", redirected).status == 400


def test_existing_table_is_registered_and_dropped_without_its_files(
    external: ExternalLake, lake: Lake, bucket: str
) -> None:
    with lake.catalog() as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", schema=SCHEMA, location=f"s3://{bucket}/wh/t")
        table.append(ROWS)
        metadata_at = catalog.load_table("ns.t").metadata_location
        catalog.drop_table("ns.t")
        assert external.keys_in(bucket, "wh/t/")
        again = catalog.register_table("ns.again", metadata_at)
        assert again.scan().to_arrow().num_rows == 3
        again.append(ROWS)
        assert catalog.load_table("ns.again").scan().to_arrow().num_rows == 6


def test_catalogs_over_one_bucket_cannot_overlap(external: ExternalLake, lake: Lake, bucket: str) -> None:
    external.create_catalog(f"beside-{bucket}", bucket, "beside")
    location = f"s3://{bucket}/wh/inside"
    refused = external.manage(
        "POST",
        "catalogs",
        {
            "catalog": {
                "name": "inside",
                "type": "INTERNAL",
                "properties": {"default-base-location": location},
                "storageConfigInfo": {
                    "storageType": "S3",
                    "endpoint": external.minio.endpoint,
                    "storageName": "minio",
                },
            }
        },
    )
    assert refused.status == 400
    assert b"overlaps" in refused.body


def test_catalog_shows_its_storage_profile_without_secrets(external: ExternalLake, lake: Lake) -> None:
    shown = json.loads(external.manage("GET", f"catalogs/{lake.warehouse}").body)
    assert shown["storageConfigInfo"]["endpoint"] == external.minio.endpoint
    assert shown["storageConfigInfo"]["storageName"] == "minio"
    listed = external.manage("GET", "catalogs").body.decode()
    assert external.minio.secret_access_key not in listed + json.dumps(shown)
    assert external.minio.secret_access_key not in external.server.log_text()


def test_store_that_is_away_affects_only_its_catalogs(external: ExternalLake, bucket: str, tmp_path: Path) -> None:
    binary, keys = find_or_build_minio(), external.minio
    second = MinioServer(f"http://127.0.0.1:{free_port()}", keys.access_key_id, keys.secret_access_key)
    here = external.create_catalog(f"here-{bucket}", bucket)
    with running_minio(binary, tmp_path, restarted=second):
        there_bucket = second.make_bucket()
        there = external.create_catalog(f"there-{bucket}", there_bucket, endpoint=second.endpoint)
        with there.catalog() as catalog:
            catalog.create_namespace("ns")
            table = catalog.create_table("ns.t", schema=SCHEMA)
            table.append(ROWS)
    with there.catalog() as catalog, here.catalog() as other:
        with pytest.raises(ServiceUnavailableError, match=rf"object store is unavailable.*catalog=there-{bucket}"):
            catalog.create_table("ns.u", schema=SCHEMA)
        other.create_namespace("ns")
        other.create_table("ns.t", schema=SCHEMA).append(ROWS)
        assert other.load_table("ns.t").scan().to_arrow().num_rows == 3
        with running_minio(binary, tmp_path, restarted=second):
            catalog.create_table("ns.u", schema=SCHEMA).append(ROWS)
            assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 3


def test_catalog_recovers_when_its_bucket_is_back(external: ExternalLake, lake: Lake, bucket: str) -> None:
    with lake.catalog() as catalog, external.minio.client() as client:
        catalog.create_namespace("ns")
        client.delete_bucket(Bucket=bucket)
        with pytest.raises(
            ServiceUnavailableError, match=rf"bucket of the catalog does not exist.*catalog={lake.warehouse}"
        ):
            catalog.create_table("ns.t", schema=SCHEMA)
        client.create_bucket(Bucket=bucket)
        catalog.create_table("ns.t", schema=SCHEMA).append(ROWS)
        assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 3


def test_storage_check_tries_the_profile_of_a_catalog(external: ExternalLake, lake: Lake, bucket: str) -> None:
    def check(name: str) -> subprocess.CompletedProcess[str]:
        words = ("check", "storage", "--catalog", name, "--config", str(external.folder / "lakebed.toml"), "--json")
        return subprocess.run(
            [sys.executable, "-m", "lakebed", *words, "--data", str(external.server.data)],
            env={**os.environ, "LAKEBED_ROOT_ACCESS_KEY": external.server.access_key}
            | {"LAKEBED_ROOT_SECRET_KEY": external.server.secret_key},
            capture_output=True,
            text=True,
            check=False,
        )

    done = check(lake.warehouse)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    outcomes = {each["step"]: each["outcome"] for each in report["steps"]}
    assert (report["bucket"], report["well"]) == (bucket, True)
    assert outcomes["sts"] == outcomes["out of scope"] == outcomes["conditional put"] == "passed"
    assert external.keys_in(bucket) == []
    with external.minio.client() as client:
        client.delete_bucket(Bucket=bucket)
    failed = check(lake.warehouse)
    assert failed.returncode == 1
    assert "no such bucket" in failed.stdout
    assert "no such catalog" in check("none").stderr


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.heavy)])
def test_tables_of_another_catalog_are_imported_without_copying(
    external: ExternalLake, bucket: str, tmp_path: Path, count: int
) -> None:
    lake = external.create_catalog(f"c-{bucket}", bucket, allowedLocations=[f"s3://{bucket}/more"])
    settings = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{bucket}/wh",
        "s3.endpoint": external.minio.endpoint,
        "s3.access-key-id": external.minio.access_key_id,
        "s3.secret-access-key": external.minio.secret_access_key,
        "s3.region": "us-east-1",
    }
    other = SqlCatalog("other", **settings)
    for name in ("one", "two"):
        other.create_namespace(name)
    for number in range(count):
        table = other.create_table(("one" if number % 2 else "two", f"t{number}"), SCHEMA)
        for _ in range(number % 3):
            table.append(ROWS)
    other.close()
    before = external.keys_in(bucket)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "LAKEBED_ENDPOINT": external.server.endpoint,
            "LAKEBED_ACCESS_KEY": external.server.access_key,
            "LAKEBED_SECRET_KEY": external.server.secret_key,
        }
        program = [sys.executable, "-m", "lakebed", "catalog", "import", f"s3://{bucket}/wh"]
        return subprocess.run(
            [*program, "--warehouse", lake.warehouse, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert f"{count:,} tables found: {count:,} would register" in run("--dry-run").stdout
    with lake.catalog() as catalog:
        assert catalog.list_namespaces() == []
        done = run()
        assert f"{count:,} tables found: {count:,} registered" in done.stdout, done.stdout + done.stderr
        assert external.keys_in(bucket) == before
        for number in range(count):
            table = catalog.load_table(("one" if number % 2 else "two", f"t{number}"))
            assert table.scan().to_arrow().num_rows == number % 3 * 3
        again = run()
        assert f"{count:,} tables found: {count:,} already registered" in again.stdout
        # A commit through this catalog is found as the table's newest metadata file.
        catalog.load_table("two.t0").append(ROWS)
        assert f"{count:,} already registered" in run().stdout
        catalog.drop_table("two.t0")
        catalog.create_table("two.t0", schema=SCHEMA, location=f"s3://{bucket}/more/t0")
        conflict = run("--json")
    assert conflict.returncode != 0
    (outcome,) = [each for each in json.loads(conflict.stdout) if each["outcome"] == "conflict"]
    assert (outcome["name"], outcome["namespace"]) == ("t0", ["two"])
    outside = lake.request("GET", f"{lake.warehouse}/discovery?location=s3%3A%2F%2F{bucket}%2Fother")
    assert outside.status == 400
