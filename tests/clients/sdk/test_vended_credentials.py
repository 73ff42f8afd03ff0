"""boto3 with vended credentials: access to the table's files, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import ANONYMOUS, Connect, Keys, all_keys, body_of, refused, root_keys
from tests.clients.plain_http import fetch
from tests.clients.signing import Signer
from tests.clients.users import User, administer, user_with_actions
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table `ns.t` in a new table bucket, next to a table `ns.t10`."""

    server: RunningServer
    bucket: str
    metadata: str
    """The key of the current metadata file."""

    def credentials(self, user: User) -> dict[str, str]:
        """The configuration that the catalog vends to a user."""
        path = f"{self.bucket}/namespaces/ns/tables/t/credentials"
        answer = call(self.server, user.keys, "GET", path)
        (entry,) = answer["storage-credentials"]
        assert entry["prefix"] == f"s3://{self.bucket}/home/t/"
        config: dict[str, str] = entry["config"]
        return config

    def keys(self, user: User) -> Keys:
        """The vended credentials."""
        config = self.credentials(user)
        return Keys(config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"])


def call(server: RunningServer, keys: Keys, method: str, path: str, document: object = None) -> Any:  # Any: JSON
    """Call the catalog."""
    url = f"{server.endpoint}/iceberg/v1/{path}"
    body = b"" if document is None else json.dumps(document).encode()
    headers = Signer(keys).headers(method, url, hashlib.sha256(body).hexdigest())
    answer = fetch(method, url, headers=headers, body=body)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


@pytest.fixture(scope="module")
def engine(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user that may write tables, without S3 permissions."""
    return user_with_actions(
        lakebed_server, tmp_path_factory.mktemp("engine"), "s3tables:GetTableData", "s3tables:PutTableData"
    )


@pytest.fixture(scope="module")
def analyst(lakebed_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user that may read tables, without S3 permissions."""
    return user_with_actions(lakebed_server, tmp_path_factory.mktemp("analyst"), "s3tables:GetTableData")


@pytest.fixture
def table(lakebed_server: RunningServer, s3: Any, bucket: str) -> Table:
    root = root_keys(lakebed_server)
    call(lakebed_server, root, "PUT", f"buckets/{bucket}")
    call(lakebed_server, root, "POST", f"{bucket}/namespaces", {"namespace": ["ns"]})
    for name in ("t10", "t"):
        document = {"name": name, "schema": SCHEMA, "location": f"s3://{bucket}/home/{name}"}
        made = call(lakebed_server, root, "POST", f"{bucket}/namespaces/ns/tables", document)
    for key in ("home/t/data/f", "home/t10/data/f", "loose/f"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    return Table(lakebed_server, bucket, made["metadata-location"].removeprefix(f"s3://{bucket}/"))


def test_files_of_the_table_are_written_read_listed_and_deleted(
    connect: Connect, lakebed_server: RunningServer, table: Table, engine: User
) -> None:
    config = table.credentials(engine)
    assert config["s3.endpoint"] == lakebed_server.endpoint
    client = connect(lakebed_server, table.keys(engine))
    client.put_object(Bucket=table.bucket, Key="home/t/data/new", Body=b"rows")
    assert body_of(client, table.bucket, "home/t/data/new") == b"rows"
    assert client.head_object(Bucket=table.bucket, Key="home/t/data/new")["ContentLength"] == 4
    assert all_keys(client, table.bucket, "home/t/data/") == ["home/t/data/f", "home/t/data/new"]
    client.copy_object(
        Bucket=table.bucket, Key="home/t/data/copy", CopySource={"Bucket": table.bucket, "Key": "home/t/data/new"}
    )
    names = [{"Key": f"home/t/data/{name}"} for name in ("new", "copy")]
    assert len(client.delete_objects(Bucket=table.bucket, Delete={"Objects": names})["Deleted"]) == 2
    assert client.get_bucket_location(Bucket=table.bucket)["LocationConstraint"] is None
    with refused("404", 404):
        client.head_object(Bucket=table.bucket, Key="home/t/data/new")


def test_large_files_are_uploaded_in_parts(
    connect: Connect, lakebed_server: RunningServer, table: Table, engine: User
) -> None:
    client = connect(lakebed_server, table.keys(engine))
    where = {"Bucket": table.bucket, "Key": "home/t/data/large"}
    upload = client.create_multipart_upload(**where)["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(**where, UploadId=upload, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in ((1, b"a" * 5 * MIB), (2, b"b"))
    ]
    assert len(client.list_parts(**where, UploadId=upload)["Parts"]) == 2
    listed = client.list_multipart_uploads(Bucket=table.bucket, Prefix="home/t/")["Uploads"]
    assert [one["Key"] for one in listed] == ["home/t/data/large"]
    client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
    assert client.head_object(**where)["ContentLength"] == 5 * MIB + 1
    aborted = client.create_multipart_upload(**where)["UploadId"]
    client.abort_multipart_upload(**where, UploadId=aborted)


@pytest.mark.parametrize("key", ["home/t10/data/f", "loose/f", "home/t", "home/t-old/f", "f"])
def test_keys_outside_of_the_table_are_refused(
    connect: Connect, lakebed_server: RunningServer, s3: Any, table: Table, engine: User, key: str
) -> None:
    client = connect(lakebed_server, table.keys(engine))
    before = all_keys(s3, table.bucket)
    where = {"Bucket": table.bucket, "Key": key}
    upload = s3.create_multipart_upload(**where)["UploadId"]
    actions: tuple[Callable[[], object], ...] = (
        lambda: client.get_object(**where),
        lambda: client.put_object(**where, Body=b"x"),
        lambda: client.delete_object(**where),
        lambda: client.create_multipart_upload(**where),
        lambda: client.upload_part(**where, UploadId=upload, PartNumber=1, Body=b"x"),
        lambda: client.complete_multipart_upload(
            **where, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": "x"}]}
        ),
        lambda: client.abort_multipart_upload(**where, UploadId=upload),
        lambda: client.list_parts(**where, UploadId=upload),
        lambda: client.copy_object(Bucket=table.bucket, Key="home/t/stolen", CopySource=where),
        lambda: client.copy_object(**where, CopySource={"Bucket": table.bucket, "Key": "home/t/data/f"}),
        lambda: client.get_object_tagging(**where),
        lambda: client.put_object_tagging(**where, Tagging={"TagSet": []}),
    )
    for action in actions:
        with refused("AccessDenied", 403):
            action()
    failed = client.delete_objects(Bucket=table.bucket, Delete={"Objects": [{"Key": key}]})["Errors"]
    assert [one["Code"] for one in failed] == ["AccessDenied"]
    assert all_keys(s3, table.bucket) == before


def test_part_copy_from_outside_is_refused(
    connect: Connect, lakebed_server: RunningServer, table: Table, engine: User
) -> None:
    client = connect(lakebed_server, table.keys(engine))
    where = {"Bucket": table.bucket, "Key": "home/t/data/parts"}
    upload = client.create_multipart_upload(**where)["UploadId"]
    with refused("AccessDenied", 403):
        client.upload_part_copy(
            **where, UploadId=upload, PartNumber=1, CopySource={"Bucket": table.bucket, "Key": "home/t10/data/f"}
        )


@pytest.mark.parametrize("prefix", ["", "home/", "home/t", "home/t10/", "loose/", "home/t1"])
def test_listing_is_limited_to_the_directory_of_the_table(
    connect: Connect, lakebed_server: RunningServer, table: Table, engine: User, prefix: str
) -> None:
    client = connect(lakebed_server, table.keys(engine))
    for list_ in (client.list_objects_v2, client.list_objects, client.list_multipart_uploads):
        with refused("AccessDenied", 403):
            list_(Bucket=table.bucket, Prefix=prefix)
    with refused("AccessDenied", 403):
        client.list_object_versions(Bucket=table.bucket, Prefix="home/t/")


def test_bucket_operations_are_refused(
    connect: Connect, lakebed_server: RunningServer, table: Table, engine: User
) -> None:
    client = connect(lakebed_server, table.keys(engine))
    for action in (
        client.list_buckets,
        lambda: client.create_bucket(Bucket=f"{table.bucket}-2"),
        lambda: client.delete_bucket(Bucket=table.bucket),
        lambda: client.get_bucket_policy(Bucket=table.bucket),
        lambda: client.put_bucket_policy(Bucket=table.bucket, Policy="{}"),
    ):
        with refused("AccessDenied", 403):
            action()


def test_credentials_of_a_reader_are_read_only(
    connect: Connect, lakebed_server: RunningServer, table: Table, analyst: User
) -> None:
    client = connect(lakebed_server, table.keys(analyst))
    assert body_of(client, table.bucket, "home/t/data/f") == b"home/t/data/f"
    assert all_keys(client, table.bucket, "home/t/data/") == ["home/t/data/f"]
    where = {"Bucket": table.bucket, "Key": "home/t/data/f"}
    for action in (client.delete_object, client.put_object, client.create_multipart_upload):
        with refused("AccessDenied", 403):
            action(**where)


def test_session_of_vended_credentials_has_their_limits(
    connect: Connect, lakebed_server: RunningServer, table: Table, analyst: User
) -> None:
    sts = connect(lakebed_server, table.keys(analyst), service="sts")
    account = sts.get_caller_identity()["Account"]
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    for made in (
        sts.assume_role(
            RoleArn=f"arn:aws:iam::{account}:role/admin", RoleSessionName="wider", Policy=json.dumps(everything)
        ),
        sts.get_session_token(),
    ):
        key = made["Credentials"]
        client = connect(lakebed_server, Keys(key["AccessKeyId"], key["SecretAccessKey"], key["SessionToken"]))
        assert body_of(client, table.bucket, "home/t/data/f") == b"home/t/data/f"
        for outside in ("home/t10/data/f", "loose/f"):
            with refused("AccessDenied", 403):
                client.get_object(Bucket=table.bucket, Key=outside)
        with refused("AccessDenied", 403):
            client.put_object(Bucket=table.bucket, Key="home/t/data/f", Body=b"x")


def test_vended_credentials_end_with_the_access_key_that_requested_them(
    connect: Connect, lakebed_server: RunningServer, table: Table, tmp_path: Path
) -> None:
    guest = user_with_actions(lakebed_server, tmp_path, "s3tables:GetTableData")
    # Connections go to the workers round-robin.
    clients = [connect(lakebed_server, table.keys(guest)) for _ in range(2)]
    for client in clients:
        assert body_of(client, table.bucket, "home/t/data/f") == b"home/t/data/f"
    administer(lakebed_server, "key", "disable", guest.keys.access_key)
    for client in clients:
        with refused("InvalidAccessKeyId", 403):
            client.get_object(Bucket=table.bucket, Key="home/t/data/f")


# -- access by the bucket ----------------------------------------------------------------------------------------------


def test_s3_permissions_do_not_grant_access_to_tables(
    connect: Connect, lakebed_server: RunningServer, table: Table, tmp_path: Path
) -> None:
    client = connect(lakebed_server, user_with_actions(lakebed_server, tmp_path, "s3:*").keys)
    client.put_object(Bucket=table.bucket, Key="loose/g", Body=b"x")
    for action in (client.get_object, client.put_object, client.delete_object):
        with refused("AccessDenied", 403):
            action(Bucket=table.bucket, Key="home/t/data/f")


def test_canned_policies_apply_to_tables_and_buckets(
    connect: Connect, lakebed_server: RunningServer, table: Table, reader: User, writer: User
) -> None:
    key = "home/t/data/canned"
    connect(lakebed_server, writer.keys).put_object(Bucket=table.bucket, Key=key, Body=b"rows")
    client = connect(lakebed_server, reader.keys)
    assert body_of(client, table.bucket, key) == b"rows"
    for action in (client.put_object, client.delete_object):
        with refused("AccessDenied", 403):
            action(Bucket=table.bucket, Key=key)


def test_tables_in_a_public_bucket_are_private(
    connect: Connect, lakebed_server: RunningServer, s3: Any, table: Table
) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{table.bucket}/*",
    }
    s3.put_bucket_policy(Bucket=table.bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    anonymous = connect(lakebed_server, ANONYMOUS)
    assert body_of(anonymous, table.bucket, "loose/f") == b"loose/f"
    with refused("AccessDenied", 403):
        anonymous.get_object(Bucket=table.bucket, Key="home/t/data/f")


def test_current_metadata_and_the_reserved_directory_are_read_only(
    connect: Connect, lakebed_server: RunningServer, s3: Any, table: Table, engine: User
) -> None:
    for client in (s3, connect(lakebed_server, table.keys(engine))):
        for action in (client.put_object, client.delete_object):
            with refused("AccessDenied", 403):
                action(Bucket=table.bucket, Key=table.metadata)
        failed = client.delete_objects(Bucket=table.bucket, Delete={"Objects": [{"Key": table.metadata}]})["Errors"]
        assert [one["Code"] for one in failed] == ["AccessDenied"]
    for key in (".lakebed/x", ".lakebed/"):
        with refused("AccessDenied", 403):
            s3.put_object(Bucket=table.bucket, Key=key, Body=b"x")
    assert b"format-version" in body_of(s3, table.bucket, table.metadata)
