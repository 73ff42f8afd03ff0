from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidTag
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.wire.s3.documents.tagging import read_bucket_tagging, read_object_tagging, write_tagging
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood

TAGS = TagSet((Tag("one", "1 = 1"), Tag("zwei", ""), Tag("tres/α", "+-._:/@")))


def test_tags_round_trip_in_order() -> None:
    listed = [{"Key": tag.key, "Value": tag.value} for tag in TAGS]
    body = sent("PutObjectTagging", Bucket="b", Key="k", Tagging={"TagSet": listed})
    assert read_object_tagging(body) == read_bucket_tagging(body) == TAGS
    assert understood("GetObjectTagging", write_tagging(TAGS)) == {"TagSet": listed}
    assert understood("GetBucketTagging", write_tagging(TagSet())) == {"TagSet": []}


def test_objects_have_at_most_ten_tags_and_buckets_fifty() -> None:
    def body(count: int) -> bytes:
        listed = [{"Key": str(number), "Value": ""} for number in range(count)]
        return sent("PutBucketTagging", Bucket="b", Tagging={"TagSet": listed})

    assert len(read_object_tagging(body(10))) == 10
    assert len(read_bucket_tagging(body(50))) == 50
    with pytest.raises(InvalidTag, match="count=11"):
        read_object_tagging(body(11))
    with pytest.raises(InvalidTag, match="count=51"):
        read_bucket_tagging(body(51))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<TagSet><Tag/></TagSet>",
        "<TagSet><Tag><Key>k</Key></Tag></TagSet>",
        "<TagSet/><TagSet/>",
        "<TagSet><Tag><Key>k</Key><Value/><Note/></Tag></TagSet>",
        "<Tag><Key>k</Key><Value/></Tag>",
    ],
)
def test_invalid_tagging_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_object_tagging(f"<Tagging>{content}</Tagging>".encode())
