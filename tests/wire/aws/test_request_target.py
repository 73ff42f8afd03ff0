from __future__ import annotations

import pytest

from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.request_target import parse_target


@pytest.mark.parametrize(
    ("path", "bucket", "key"),
    [
        ("/lake", "lake", ""),
        ("/lake/a/b", "lake", "a/b"),
        ("/lake/a%2Fb", "lake", "a/b"),
        ("/", "", ""),
    ],
)
def test_path_style_target_is_parsed(path: str, bucket: str, key: str) -> None:
    target = parse_target(path, "127.0.0.1:9000", ())
    assert (target.bucket, target.key) == (bucket, key)


def test_virtual_host_style_target_is_parsed() -> None:
    target = parse_target("/a%20b", "lake.s3.example:9000", ("s3.example",))
    assert (target.bucket, target.key) == ("lake", "a b")


@pytest.mark.parametrize("path", ["/%2F127.0.0.1:9000%2Flake/key", "/a%2Fb", "//127.0.0.1:9000/lake/key", "//key"])
def test_no_request_names_a_bucket_of_another_store(path: str) -> None:
    with pytest.raises(AwsFault, match="not valid") as caught:
        parse_target(path, "127.0.0.1:9000", ())
    assert caught.value.code == "InvalidBucketName"
