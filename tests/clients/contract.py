"""The contract of an S3 client on a running server: every client performs the same operations, checked with boto3.

Subclass `ClientContract`, define a `client` fixture, and list in `cannot` the operations that the client lacks, each
with its reason: those tests are skipped and the reason is printed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import pytest

from tests.clients.boto import all_keys, body_of
from tests.clients.plain_http import fetch

T = TypeVar("T")

PAST_INLINE = bytes(range(256)) * 300
"""75 KiB: larger than bodies that are stored inline in the metadata store."""


class Missing(Exception):
    """The client reports that the key does not exist."""


class ConditionFailed(Exception):
    """The client reports that the condition of a write failed."""


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file that every client uploads in parts."""

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Level:
    """The result of a listing with a delimiter."""

    keys: list[str]
    folders: list[str]
    """Common prefixes, which end with the delimiter."""


class ObjectClient(Protocol):
    """The operations that all clients share."""

    def make_bucket(self, bucket: str) -> None: ...

    def buckets(self) -> list[str]: ...

    def put(self, bucket: str, key: str, body: bytes) -> None: ...

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None: ...

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]: ...

    def get(self, bucket: str, key: str) -> bytes:
        """Raises Missing."""
        ...

    def keys(self, bucket: str, prefix: str) -> list[str]:
        """All keys under a prefix that ends in a slash."""
        ...

    def level(self, bucket: str, prefix: str) -> Level: ...

    def upload(self, bucket: str, key: str, source: Path) -> None:
        """Upload in parts, as the client does by default with a large file."""
        ...

    def download(self, bucket: str, key: str, target: Path) -> None: ...

    def create(self, bucket: str, key: str, body: bytes) -> None:
        """With If-None-Match: *. Raises ConditionFailed."""
        ...

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        """With If-Match. Raises ConditionFailed."""
        ...

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None: ...

    def delete(self, bucket: str, key: str) -> None: ...

    def link_to_get(self, bucket: str, key: str) -> str: ...

    def link_to_put(self, bucket: str, key: str) -> str: ...


def needs(*words: str) -> Callable[[T], T]:
    """The test runs only with clients that have these operations."""

    def mark(test: T) -> T:
        test.needs = words  # type: ignore[attr-defined]  # read by the fixture below
        return test

    return mark


class ClientContract:
    """The tests that every client passes."""

    cannot: ClassVar[Mapping[str, str]] = {}
    """Operations that the client lacks, and why."""

    @pytest.fixture(autouse=True)
    def _skip_unsupported_operations(self, request: pytest.FixtureRequest) -> None:
        for word in getattr(request.function, "needs", ()):
            if word in self.cannot:
                pytest.skip(self.cannot[word])

    def test_created_bucket_is_listed(self, client: ObjectClient, new_name: str) -> None:
        client.make_bucket(new_name)
        assert new_name in client.buckets()

    @pytest.mark.parametrize("body", [b"", b"a few bytes", PAST_INLINE], ids=["empty", "small", "large"])
    def test_body_reads_back(self, client: ObjectClient, s3: Any, bucket: str, body: bytes) -> None:
        client.put(bucket, "folder/it is here", body)
        assert client.get(bucket, "folder/it is here") == body
        assert body_of(s3, bucket, "folder/it is here") == body

    def test_absent_key_is_missing(self, client: ObjectClient, bucket: str) -> None:
        with pytest.raises(Missing):
            client.get(bucket, "absent/key")

    def test_listing_returns_the_keys_under_a_prefix_in_order(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        for key in ("in/b", "in/a/deep", "in/ä", "in/a+b c", "out/a", "in-side"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"")
        assert client.keys(bucket, "in/") == ["in/a+b c", "in/a/deep", "in/b", "in/ä"]

    def test_delimiter_groups_keys_into_common_prefixes(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        for key in ("in/one", "in/two", "in/x/1", "in/x/2", "in/y/z/3", "out"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"1")
        assert client.level(bucket, "in/") == Level(["in/one", "in/two"], ["in/x/", "in/y/"])

    @needs("metadata")
    def test_metadata_reads_back(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        client.put_with_metadata(bucket, "k", b"1", {"color": "blue", "shape": "round square"})
        expected = {"color": "blue", "shape": "round square"}
        assert client.metadata(bucket, "k") == expected
        assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == expected

    @pytest.mark.slow
    def test_64_mib_in_parts_read_back(
        self, client: ObjectClient, s3: Any, bucket: str, large_file: LargeFile, tmp_path: Path
    ) -> None:
        client.upload(bucket, "large", large_file.path)
        head = s3.head_object(Bucket=bucket, Key="large")
        assert head["ContentLength"] == large_file.size
        _, _, parts = head["ETag"].strip('"').partition("-")
        assert int(parts) > 1
        client.download(bucket, "large", tmp_path / "back")
        with (tmp_path / "back").open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == large_file.sha256
        assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)

    @needs("create")
    def test_create_only_put_succeeds_once(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        client.create(bucket, "k", b"first")
        with pytest.raises(ConditionFailed):
            client.create(bucket, "k", b"second")
        assert body_of(s3, bucket, "k") == b"first"

    @needs("replace")
    def test_put_with_a_stale_etag_is_refused(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        first = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["ETag"]
        client.replace(bucket, "k", b"second", first)
        with pytest.raises(ConditionFailed):
            client.replace(bucket, "k", b"third", first)
        assert body_of(s3, bucket, "k") == b"second"

    def test_copy_has_the_same_body(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        s3.put_object(Bucket=bucket, Key="from/a b+c", Body=PAST_INLINE)
        client.copy(bucket, "from/a b+c", bucket, "to/ä")
        assert body_of(s3, bucket, "to/ä") == PAST_INLINE
        assert all_keys(s3, bucket) == ["from/a b+c", "to/ä"]

    def test_deleted_object_is_gone(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        for key in ("keep", "remove"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"1")
        client.delete(bucket, "remove")
        assert all_keys(s3, bucket) == ["keep"]

    @needs("link_to_get")
    def test_presigned_get_needs_no_credentials(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        s3.put_object(Bucket=bucket, Key="a b+c/ä", Body=b"readable through the URL")
        link = client.link_to_get(bucket, "a b+c/ä")
        assert fetch("GET", link).body == b"readable through the URL"
        assert fetch("GET", link.partition("?")[0]).code == "AccessDenied"

    def test_object_put_through_a_presigned_url_reads_back(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        link = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
        assert fetch("PUT", link, body=PAST_INLINE).status == 200
        assert client.get(bucket, "k") == PAST_INLINE

    @needs("link_to_put")
    def test_presigned_put_needs_no_credentials(self, client: ObjectClient, s3: Any, bucket: str) -> None:
        link = client.link_to_put(bucket, "a b+c/ä")
        assert fetch("PUT", link, body=b"written through the URL").status == 200
        assert body_of(s3, bucket, "a b+c/ä") == b"written through the URL"
        assert fetch("PUT", link.partition("?")[0], body=b"without").code == "AccessDenied"
