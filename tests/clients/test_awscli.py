"""The AWS CLI on a running server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.clients.boto import REGION, all_keys, body_of
from tests.clients.contract import ClientContract, ConditionFailed, Level, Missing
from tests.fixtures.server import RunningServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

AWS = Path(sys.executable).with_name("aws")


class Refused(Exception):
    """The CLI failed; its message has the S3 error code."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        found = re.search(r"\((\w+)\)", message)
        self.code = found[1] if found else ""


class AwsCli:
    """The contract's operations with `aws s3` and `aws s3api`."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        self._server = server
        self._body = folder / "body"
        # As `aws configure set default.s3.signature_version s3v4` does: see tests.clients.boto.
        (folder / "config").write_text("[default]\ns3 =\n  signature_version = s3v4\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "AWS_CONFIG_FILE": str(folder / "config"),
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def run(self, *words: str | Path) -> str:
        """The output of a command. Raises Refused."""
        done = subprocess.run([AWS, *words], env=self._environment, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def api(self, operation: str, bucket: str, *words: str | Path) -> Any:  # Any: a JSON document
        printed = self.run("s3api", operation, "--bucket", bucket, "--output", "json", *words)
        return json.loads(printed) if printed else None

    def make_bucket(self, bucket: str) -> None:
        self.run("s3", "mb", f"s3://{bucket}")

    def buckets(self) -> list[str]:
        return [line.split()[-1] for line in self.run("s3", "ls").splitlines()]

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._body.write_bytes(body)
        self.run("s3", "cp", self._body, f"s3://{bucket}/{key}")

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        self._body.write_bytes(body)
        self.run("s3", "cp", self._body, f"s3://{bucket}/{key}", "--metadata", json.dumps(metadata))

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self.api("head-object", bucket, "--key", key)["Metadata"]
        return found

    def get(self, bucket: str, key: str) -> bytes:
        try:
            self.run("s3", "cp", f"s3://{bucket}/{key}", self._body)
        except Refused as error:
            if error.code == "404":
                raise Missing from error
            raise
        return self._body.read_bytes()

    def keys(self, bucket: str, prefix: str) -> list[str]:
        page = self.api("list-objects-v2", bucket, "--prefix", prefix)
        return [item["Key"] for item in page["Contents"]]

    def level(self, bucket: str, prefix: str) -> Level:
        page = self.api("list-objects-v2", bucket, "--prefix", prefix, "--delimiter", "/")
        return Level([item["Key"] for item in page["Contents"]], [item["Prefix"] for item in page["CommonPrefixes"]])

    def upload(self, bucket: str, key: str, source: Path) -> None:
        self.run("s3", "cp", "--no-progress", source, f"s3://{bucket}/{key}")

    def download(self, bucket: str, key: str, target: Path) -> None:
        self.run("s3", "cp", "--no-progress", f"s3://{bucket}/{key}", target)

    def create(self, bucket: str, key: str, body: bytes) -> None:
        self._put_under(bucket, key, body, "--if-none-match", "*")

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        self._put_under(bucket, key, body, "--if-match", etag)

    def _put_under(self, bucket: str, key: str, body: bytes, *condition: str) -> None:
        self._body.write_bytes(body)
        try:
            self.api("put-object", bucket, "--key", key, "--body", self._body, *condition)
        except Refused as error:
            if error.code == "PreconditionFailed":
                raise ConditionFailed from error
            raise

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None:
        self.run("s3", "cp", f"s3://{bucket}/{key}", f"s3://{target_bucket}/{target_key}")

    def delete(self, bucket: str, key: str) -> None:
        self.run("s3", "rm", f"s3://{bucket}/{key}")

    def link_to_get(self, bucket: str, key: str) -> str:
        return self.run("s3", "presign", f"s3://{bucket}/{key}", "--expires-in", "60").strip()

    def link_to_put(self, bucket: str, key: str) -> str:
        raise NotImplementedError(TestAwsCli.cannot["link_to_put"])


@pytest.fixture
def cli(lakebed_server: RunningServer, tmp_path: Path) -> AwsCli:
    return AwsCli(lakebed_server, tmp_path)


class TestAwsCli(ClientContract):
    cannot: ClassVar[Mapping[str, str]] = {
        "link_to_put": "`aws s3 presign` presigns GET only; boto3, on the same botocore, presigns PUT",
    }

    @pytest.fixture
    def client(self, cli: AwsCli) -> AwsCli:
        return cli


def test_sync_uploads_new_files_and_deletes_removed_ones(cli: AwsCli, s3: Any, bucket: str, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_text("a")
    (folder / "sub" / "b").write_text("b")
    s3.put_object(Bucket=bucket, Key="tree/gone", Body=b"1")
    cli.run("s3", "sync", folder, f"s3://{bucket}/tree", "--delete")
    assert all_keys(s3, bucket) == ["tree/a", "tree/sub/b"]
    assert cli.run("s3", "sync", folder, f"s3://{bucket}/tree", "--delete") == ""


def test_move_deletes_the_source(cli: AwsCli, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="from", Body=b"moved")
    cli.run("s3", "mv", f"s3://{bucket}/from", f"s3://{bucket}/to")
    assert all_keys(s3, bucket) == ["to"]
    assert body_of(s3, bucket, "to") == b"moved"


def test_forced_removal_empties_the_bucket_first(cli: AwsCli, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"1")
    with pytest.raises(Refused) as refused:
        cli.run("s3", "rb", f"s3://{bucket}")
    assert refused.value.code == "BucketNotEmpty"
    cli.run("s3", "rb", "--force", f"s3://{bucket}")
    assert bucket not in cli.buckets()
