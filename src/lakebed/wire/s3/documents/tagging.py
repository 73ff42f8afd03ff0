"""Tags of buckets and objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakebed.objects.config.tagging import Tag, TagSet, bucket_tags, object_tags

from ..xml import XmlElement, document, escape, parse_document

__all__ = ["read_bucket_tagging", "read_object_tagging", "read_tag", "tag_elements", "write_tagging"]


def read_tag(element: XmlElement) -> Tag:
    """A Tag element."""
    element.only("Key", "Value")
    return Tag(element.text_of("Key"), element.text_of("Value"))


def _read(body: bytes) -> Iterator[Tag]:
    tag_set = parse_document(body, "Tagging").only("TagSet").required("TagSet").only("Tag")
    return (read_tag(element) for element in tag_set.children)


def read_object_tagging(body: bytes) -> TagSet:
    """Tagging of an object: at most 10 tags. Raises MalformedDocument, InvalidTag."""
    return object_tags(_read(body))


def read_bucket_tagging(body: bytes) -> TagSet:
    """Tagging of a bucket: at most 50 tags. Raises MalformedDocument, InvalidTag."""
    return bucket_tags(_read(body))


def tag_elements(tags: Iterable[Tag]) -> str:
    """Tag elements of a tag set or a filter."""
    return "".join([f"<Tag><Key>{escape(tag.key)}</Key><Value>{escape(tag.value)}</Value></Tag>" for tag in tags])


def write_tagging(tags: TagSet) -> bytes:
    """Tagging."""
    return document("Tagging", f"<TagSet>{tag_elements(tags)}</TagSet>")
