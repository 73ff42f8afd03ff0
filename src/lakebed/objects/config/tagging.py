"""Tags of buckets and objects, with S3's limits on number, length and characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_plus

from lakebed.core.errors import InvalidInput, InvalidTag

__all__ = [
    "MAX_BUCKET_TAGS",
    "MAX_OBJECT_TAGS",
    "NO_TAGS",
    "Tag",
    "TagSet",
    "bucket_tags",
    "format_tag_query",
    "object_tags",
    "parse_tag_query",
]

MAX_OBJECT_TAGS: Final = 10
MAX_BUCKET_TAGS: Final = 50
_MAX_KEY: Final = 128
_MAX_VALUE: Final = 256
_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_PUNCTUATION: Final = frozenset("_.:/=+-@")


def _is_allowed(text: str) -> bool:
    """Letters, numbers and spaces of any script, and some punctuation, as in S3."""
    return all(c in _PUNCTUATION or unicodedata.category(c)[0] in "LNZ" for c in text)


@dataclass(frozen=True, slots=True)
class Tag:
    """A key and a value. Raises InvalidTag."""

    key: str
    value: str

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= _MAX_KEY:
            raise InvalidTag(
                f"tag key must have 1 to {_MAX_KEY} characters. length={len(self.key)}", argument="Key", value=self.key
            )
        if len(self.value) > _MAX_VALUE:
            raise InvalidTag(
                f"tag value may have {_MAX_VALUE} characters. key={self.key} length={len(self.value)}",
                argument="Value",
                value=self.value,
            )
        if not _is_allowed(self.key):
            raise InvalidTag(
                f"tag key has a character that is not allowed. key={self.key!r}", argument="Key", value=self.key
            )
        if not _is_allowed(self.value):
            raise InvalidTag(
                f"tag value has a character that is not allowed. value={self.value!r}",
                argument="Value",
                value=self.value,
            )
        if self.key.lower().startswith("aws:"):
            raise InvalidTag(
                f"tag keys that begin with aws: are reserved. key={self.key}", argument="Key", value=self.key
            )


@dataclass(frozen=True, slots=True)
class TagSet:
    """Tags in the order given, with unique keys. Raises InvalidTag."""

    tags: tuple[Tag, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tags) > MAX_BUCKET_TAGS:
            raise InvalidTag(f"too many tags. count={len(self.tags)} limit={MAX_BUCKET_TAGS}", argument="BucketTags")
        seen: set[str] = set()
        for tag in self.tags:
            if tag.key in seen:
                raise InvalidTag(f"tag key is repeated. key={tag.key}", argument="TagSet", value=tag.key)
            seen.add(tag.key)

    def __iter__(self) -> Iterator[Tag]:
        return iter(self.tags)

    def __len__(self) -> int:
        return len(self.tags)

    def has_all(self, wanted: Iterable[Tag]) -> bool:
        """Whether every wanted tag is present with the same value."""
        return all(tag in self.tags for tag in wanted)


NO_TAGS: Final = TagSet()


def bucket_tags(tags: Iterable[Tag]) -> TagSet:
    """The tags of a bucket: at most 50. Raises InvalidTag."""
    return TagSet(tuple(tags))


def object_tags(tags: Iterable[Tag]) -> TagSet:
    """The tags of an object: at most 10. Raises InvalidTag."""
    made = TagSet(tuple(tags))
    if len(made) > MAX_OBJECT_TAGS:
        raise InvalidTag(f"too many tags. count={len(made)} limit={MAX_OBJECT_TAGS}", argument="ObjectTags")
    return made


def parse_tag_query(text: str) -> TagSet:
    """Parse tags in query string form, `a=1&b=2`, as in the header `x-amz-tagging`.

    Raises InvalidInput for another form, InvalidTag for invalid tags.
    """
    tags = []
    if _BROKEN_ESCAPE.search(text):
        raise _malformed_query(text)
    seen: set[str] = set()
    for pair in filter(None, text.split("&")):
        key, _, value = pair.partition("=")
        try:
            tag = Tag(unquote_plus(key, errors="strict"), unquote_plus(value, errors="strict"))
        except UnicodeDecodeError as error:
            raise _malformed_query(text) from error
        except InvalidTag as error:
            if key:
                raise
            raise _malformed_query(text) from error
        if tag.key in seen:
            raise _malformed_query(text)
        seen.add(tag.key)
        tags.append(tag)
    return object_tags(tags)


def _malformed_query(text: str) -> InvalidInput:
    return InvalidInput(
        "tags are not percent-encoded utf-8 with each key once", argument="x-amz-tagging", value=text[:1000]
    )


def format_tag_query(tags: TagSet) -> str:
    """Tags in query string form."""
    return "&".join(f"{quote(tag.key, safe='')}={quote(tag.value, safe='')}" for tag in tags)
