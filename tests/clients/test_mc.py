"""MinIO's command line client on a running server."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.clients.boto import all_keys, body_of
from tests.clients.contract import PAST_INLINE, ClientContract, ConditionFailed, Level, Missing
from tests.clients.plain_http import fetch
from tests.clients.repeating import repeating_action
from tests.clients.tls import TlsServer
from tests.fixtures.mc import find_or_build_mc
from tests.fixtures.server import RunningServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class Refused(Exception):
    """The client printed an error."""

    def __init__(self, cause: Mapping[str, Any]) -> None:  # Any: a JSON document
        super().__init__(cause.get("message", ""))
        self.code: str = cause.get("error", {}).get("Code", "")


class Mc:
    """The contract's operations with `mc`."""

    def __init__(self, binary: Path, server: RunningServer, folder: Path) -> None:
        self._binary = binary
        self._body = folder / "body"
        at = urlsplit(server.endpoint)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "MC_CONFIG_DIR": str(folder / "mc"),
            "MC_HOST_lakebed": f"{at.scheme}://{server.access_key}:{server.secret_key}@{at.netloc}",
        }

    def run(self, *words: str | Path, stdin: bytes = b"") -> list[dict[str, Any]]:  # Any: JSON documents
        """The documents that a command printed. Raises Refused at the first error."""
        printed = self._run("--json", *words, stdin=stdin)
        # A progress bar may precede a document.
        documents = [json.loads(line[line.index(b"{") :]) for line in printed.stdout.splitlines() if b"{" in line]
        for document in documents:
            if document["status"] == "error":
                raise Refused(document["error"].get("cause", {}))
        if printed.returncode:
            raise Refused({"message": printed.stderr.decode()})
        return documents

    @contextmanager
    def started(self, *words: str) -> Iterator[Iterator[dict[str, Any]]]:  # Any: JSON documents
        """The documents of a command that runs until it is killed."""
        command: list[str | Path] = [self._binary, "--json", *words]
        with subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                yield map(json.loads, process.stdout)
            finally:
                process.kill()

    def _run(self, *words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([self._binary, *words], env=self._environment, input=stdin, capture_output=True)

    def make_bucket(self, bucket: str) -> None:
        self.run("mb", f"lakebed/{bucket}")

    def buckets(self) -> list[str]:
        return [document["key"].rstrip("/") for document in self.run("ls", "lakebed")]

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._body.write_bytes(body)
        self.run("put", self._body, f"lakebed/{bucket}/{key}")

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        self._body.write_bytes(body)
        attributes = ";".join(f"{name}={value}" for name, value in metadata.items())
        self.run("cp", "--attr", attributes, self._body, f"lakebed/{bucket}/{key}")

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]:
        (found,) = self.run("stat", f"lakebed/{bucket}/{key}")
        prefix = "x-amz-meta-"
        return {
            name.lower().removeprefix(prefix): value
            for name, value in found["metadata"].items()
            if name.lower().startswith(prefix)
        }

    def get(self, bucket: str, key: str) -> bytes:
        printed = self._run("cat", f"lakebed/{bucket}/{key}")
        if b"Object does not exist" in printed.stderr:
            raise Missing
        assert printed.returncode == 0, printed.stderr
        return printed.stdout

    def keys(self, bucket: str, prefix: str) -> list[str]:
        return [prefix + document["key"] for document in self.run("ls", "--recursive", f"lakebed/{bucket}/{prefix}")]

    def level(self, bucket: str, prefix: str) -> Level:
        found = self.run("ls", f"lakebed/{bucket}/{prefix}")
        return Level(
            [prefix + document["key"] for document in found if document["type"] == "file"],
            [prefix + document["key"] for document in found if document["type"] == "folder"],
        )

    def upload(self, bucket: str, key: str, source: Path) -> None:
        self.run("put", source, f"lakebed/{bucket}/{key}")

    def download(self, bucket: str, key: str, target: Path) -> None:
        self.run("get", f"lakebed/{bucket}/{key}", target)

    def create(self, bucket: str, key: str, body: bytes) -> None:
        self._put_under(bucket, key, body, "If-None-Match: *")

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        self._put_under(bucket, key, body, f"If-Match: {etag}")

    def _put_under(self, bucket: str, key: str, body: bytes, condition: str) -> None:
        """`mc` has no flag for conditions, but accepts any header."""
        self._body.write_bytes(body)
        try:
            self.run("put", "--custom-header", condition, self._body, f"lakebed/{bucket}/{key}")
        except Refused as error:
            if error.code == "PreconditionFailed":
                raise ConditionFailed from error
            raise

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None:
        self.run("cp", f"lakebed/{bucket}/{key}", f"lakebed/{target_bucket}/{target_key}")

    def delete(self, bucket: str, key: str) -> None:
        self.run("rm", f"lakebed/{bucket}/{key}")

    def link_to_get(self, bucket: str, key: str) -> str:
        (found,) = self.run("share", "download", "--expire", "1m", f"lakebed/{bucket}/{key}")
        link: str = found["share"]
        return link

    def link_to_put(self, bucket: str, key: str) -> str:
        raise NotImplementedError(TestMc.cannot["link_to_put"])


@pytest.fixture
def mc(lakebed_server: RunningServer, tmp_path: Path) -> Mc:
    return Mc(find_or_build_mc(), lakebed_server, tmp_path)


class TestMc(ClientContract):
    cannot: ClassVar[Mapping[str, str]] = {
        "link_to_put": "`mc share upload` creates a POST form, not a PUT URL: see the test of the form",
    }

    @pytest.fixture
    def client(self, mc: Mc) -> Mc:
        return mc


def test_shared_upload_form_needs_no_credentials(mc: Mc, s3: Any, bucket: str) -> None:
    (shared,) = mc.run("share", "upload", "--expire", "1m", f"lakebed/{bucket}/from-a-form")
    url, fields = _form_of(shared["share"])
    body, content_type = urllib3.encode_multipart_formdata([*fields, ("file", ("name", b"posted"))])
    assert fetch("POST", url, headers={"Content-Type": content_type}, body=body).status == 204
    assert body_of(s3, bucket, "from-a-form") == b"posted"


def _form_of(command: str) -> tuple[str, list[tuple[str, str]]]:
    """URL and fields of the curl command that `mc share upload` prints."""
    _, url, *words = shlex.split(command)
    pairs = [word.partition("=") for word in words if word != "-F"]
    return url, [(name, value) for name, _, value in pairs if name != "file"]


def test_piped_body_of_unknown_length_reads_back(mc: Mc, s3: Any, bucket: str) -> None:
    mc.run("pipe", f"lakebed/{bucket}/piped", stdin=b"of unknown length")
    assert body_of(s3, bucket, "piped") == b"of unknown length"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_trailing_checksum_of_mc_is_stored(mc: Mc, s3: Any, bucket: str, tmp_path: Path, algorithm: str) -> None:
    (tmp_path / "summed").write_bytes(b"summed")
    mc.run("put", "--checksum", algorithm, tmp_path / "summed", f"lakebed/{bucket}/summed")
    kept = s3.head_object(Bucket=bucket, Key="summed", ChecksumMode="ENABLED")
    witness = s3.put_object(Bucket=bucket, Key="witness", Body=b"summed", ChecksumAlgorithm=algorithm)
    assert kept[f"Checksum{algorithm}"] == witness[f"Checksum{algorithm}"]


def test_mirror_makes_the_bucket_like_the_folder(mc: Mc, s3: Any, bucket: str, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_text("a")
    (folder / "sub" / "b").write_text("b")
    s3.put_object(Bucket=bucket, Key="gone", Body=b"1")
    mc.run("mirror", "--overwrite", "--remove", folder, f"lakebed/{bucket}")
    assert all_keys(s3, bucket) == ["a", "sub/b"]


def test_undo_restores_the_old_version(mc: Mc, s3: Any, bucket: str) -> None:
    mc.run("version", "enable", f"lakebed/{bucket}")
    mc.put(bucket, "k", b"first")
    mc.delete(bucket, "k")
    with pytest.raises(Missing):
        mc.get(bucket, "k")
    mc.run("undo", "--force", f"lakebed/{bucket}/k")
    assert mc.get(bucket, "k") == b"first"


def test_tags_are_set_and_read(mc: Mc, s3: Any, bucket: str) -> None:
    mc.put(bucket, "k", b"1")
    mc.run("tag", "set", f"lakebed/{bucket}/k", "team=data&stage=raw")
    found = s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert {item["Key"]: item["Value"] for item in found} == {"stage": "raw", "team": "data"}
    (listed,) = mc.run("tag", "list", f"lakebed/{bucket}/k")
    assert listed["tagset"] == {"stage": "raw", "team": "data"}


def test_watch_shows_events(mc: Mc, s3: Any, bucket: str) -> None:
    with mc.started("watch", "--recursive", "--events", "put,delete", f"lakebed/{bucket}/in") as printed:
        with repeating_action(lambda: s3.put_object(Bucket=bucket, Key="in/made.csv", Body=b"abc")):
            made = next(printed)
        s3.put_object(Bucket=bucket, Key="out/made.csv")
        s3.delete_object(Bucket=bucket, Key="in/made.csv")
        gone = next(event for event in printed if event["events"]["type"] != made["events"]["type"])
    assert made["events"]["path"].endswith(f"/{bucket}/in/made.csv")
    assert (made["events"]["size"], made["events"]["type"]) == (3, "s3:ObjectCreated:Put")
    assert (gone["events"]["path"], gone["events"]["type"]) == (made["events"]["path"], "s3:ObjectRemoved:Delete")


@pytest.mark.parametrize("body", [b"", b"a few bytes", PAST_INLINE], ids=len)
def test_body_reads_back_over_tls(tls_server: TlsServer, tmp_path: Path, new_name: str, body: bytes) -> None:
    trusted = tmp_path / "mc" / "certs" / "CAs"
    trusted.mkdir(parents=True)
    shutil.copy(tls_server.trust, trusted)
    mc = Mc(find_or_build_mc(), tls_server.server, tmp_path)
    mc.make_bucket(new_name)
    mc.put(new_name, "k", body)
    assert mc.get(new_name, "k") == body
