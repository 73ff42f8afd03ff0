"""Lakebed on an object store without STS, KMS and policies vends table-scoped credentials and signatures itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.boto import REGION, Connect, Keys, refused, root_keys
from tests.clients.iceberg.lake import OWN, Lake, new_lake
from tests.clients.plain_http import fetch
from tests.clients.signing import Signer
from tests.clients.users import User, user_with_actions
from tests.fixtures.server import RunningServer, running_server
from tests.fixtures.versitygw import Gateway, Suite, running_gateway, versitygw

__all__ = ["versitygw"]

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
ROWS = b"rows that are too long to be kept beside their metadata. " * 2000


@dataclass(frozen=True, slots=True)
class GatewayDeployment:
    """A server on an S3 gateway to a folder, with a table in a table bucket."""

    gateway: Gateway
    lake: Lake
    engineer: User
    prefix: str

    @property
    def server(self) -> RunningServer:
        return self.lake.server

    def load(self, access: str) -> Any:  # Any: JSON
        """Load the table with this access delegation."""
        url = f"{self.server.endpoint}{OWN}/v1/{self.lake.warehouse}/namespaces/ns/tables/t"
        sent = Signer(self.engineer.keys).headers("GET", url, hashlib.sha256(b"").hexdigest())
        answer = fetch("GET", url, headers={**sent, "x-iceberg-access-delegation": access})
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def signed(self, method: str, key: str) -> tuple[int, Any]:
        """Status and document of a signing request."""
        url = f"{self.server.endpoint}/{self.lake.warehouse}/{key}"
        request = {"region": REGION, "uri": url, "method": method, "headers": {}}
        path = f"{self.lake.warehouse}/namespaces/ns/tables/t/sign"
        answer = self.lake.request("POST", path, request, keys=self.engineer.keys)
        return answer.status, json.loads(answer.body)


@pytest.fixture(scope="module")
def site(versitygw: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayDeployment]:
    folder = tmp_path_factory.mktemp("plain")
    with running_gateway(versitygw, folder / "gateway") as gateway:
        gateway.make_bucket("bytes")
        settings = {
            "LAKEBED_STORAGE__KIND": "s3",
            "LAKEBED_STORAGE__S3__ENDPOINT": gateway.endpoint,
            "LAKEBED_STORAGE__S3__BUCKET": "bytes",
            "LAKEBED_STORAGE__S3__ALLOW_HTTP": "true",
            "LAKEBED_STORAGE__S3__ACCESS_KEY_ID": gateway.access_key,
            "LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": gateway.secret_key,
        }
        with running_server(folder / "data", workers=1, **settings) as server:
            lake = new_lake(server)
            lake.call("POST", "namespaces", {"namespace": ["ns"]})
            made = lake.call("POST", "namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
            prefix = made["metadata"]["location"].removeprefix(f"s3://{lake.warehouse}/")
            yield GatewayDeployment(
                gateway, lake, user_with_actions(server, folder, "s3tables:Get*", "s3tables:PutTableData"), prefix
            )


@pytest.mark.parametrize("access", ["vended-credentials", "vended-credentials,remote-signing", "true"])
def test_vended_credentials_are_limited_to_the_table(site: GatewayDeployment, connect: Connect, access: str) -> None:
    """Also if the client requests both modes: other catalogs fail then, if the store has no STS."""
    config = site.load(access)["config"]
    assert config["s3.endpoint"] == site.server.endpoint
    keys = Keys(config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"])
    assert gateway_refuses(site, keys)
    s3, bucket = connect(site.server, keys), site.lake.warehouse
    s3.put_object(Bucket=bucket, Key=f"{site.prefix}/data/f", Body=ROWS)
    assert s3.get_object(Bucket=bucket, Key=f"{site.prefix}/data/f")["Body"].read() == ROWS
    for key in (f"{site.prefix}10/f", "loose"):
        with refused("AccessDenied", 403):
            s3.put_object(Bucket=bucket, Key=key, Body=b"")
    with refused("AccessDenied", 403):
        s3.list_objects_v2(Bucket=bucket)


def test_remote_signing_is_limited_to_the_table(site: GatewayDeployment) -> None:
    config = site.load("remote-signing")["config"]
    assert config["s3.remote-signing-enabled"] == "true"
    assert not any("secret" in name for name in config)
    for method, body in (("PUT", ROWS), ("GET", b"")):
        status, document = site.signed(method, f"{site.prefix}/data/signed")
        assert status == 200
        headers = {name: ",".join(values) for name, values in document["headers"].items()}
        answer = fetch(method, document["uri"], headers=headers, body=body)
        assert answer.status == 200
    assert answer.body == ROWS
    assert site.signed("GET", f"{site.prefix}10/f")[0] == 403


def test_files_are_encrypted_without_a_kms(site: GatewayDeployment, connect: Connect) -> None:
    s3 = connect(site.server, root_keys(site.server))
    s3.create_bucket(Bucket="sealed")
    secret = b"hidden from the object store's owner " * 4000
    s3.put_object(Bucket="sealed", Key="f", Body=secret, ServerSideEncryption="AES256")
    s3.put_object(Bucket="sealed", Key="open", Body=ROWS)
    assert s3.get_object(Bucket="sealed", Key="f")["Body"].read() == secret
    stored = [(site.gateway.folder / "bytes" / name).read_bytes() for name in site.gateway.files("bytes")]
    assert any(ROWS[:100] in one for one in stored)
    assert not any(secret[:35] in one for one in stored)


def test_kms_keys_are_refused_with_a_clear_message(site: GatewayDeployment, connect: Connect) -> None:
    s3 = connect(site.server, root_keys(site.server))
    with refused("NotImplemented", 501):
        s3.put_object(
            Bucket=site.lake.warehouse, Key="k", Body=b"", ServerSideEncryption="aws:kms", SSEKMSKeyId="alias/lake"
        )


def gateway_refuses(site: GatewayDeployment, keys: Keys) -> bool:
    """Whether the object store refuses the credentials."""
    url = f"{site.gateway.endpoint}/bytes?list-type=2"
    headers = Signer(keys).headers("GET", url, hashlib.sha256(b"").hexdigest())
    return 400 <= fetch("GET", url, headers=headers).status < 500
