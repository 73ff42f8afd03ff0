"""A model of the object store in lists and dictionaries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.objects.config.versioning import Versioning

NULL = "null"


def md5(body: bytes) -> str:
    """The ETag of an object that is not multipart."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a key; a delete marker has no body."""

    id: str
    body: bytes | None
    etag: str
    modified_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[tuple[str, str], ...] = ()
    encrypted: bool = False
    part_sizes: tuple[int, ...] = ()

    @property
    def is_marker(self) -> bool:
        """Whether it is a delete marker."""
        return self.body is None


@dataclass(slots=True)
class ModelUpload:
    """A multipart upload: in progress, or completed with these parts and this result."""

    key: str
    metadata: Mapping[str, str]
    encrypted: bool
    parts: dict[int, bytes] = field(default_factory=dict)
    listed: tuple[tuple[int, str], ...] | None = None
    etag: str = ""
    version: str = ""


@dataclass(slots=True)
class ModelBucket:
    """A bucket: the versions of each key, newest first."""

    versioning: Versioning = Versioning.UNVERSIONED
    keys: dict[str, list[ModelVersion]] = field(default_factory=dict)
    uploads: dict[str, ModelUpload] = field(default_factory=dict)

    def current(self, key: str) -> ModelVersion | None:
        """The current version."""
        versions = self.keys.get(key)
        return None if not versions or versions[0].is_marker else versions[0]

    def add(self, key: str, version: ModelVersion) -> None:
        """Add a version or a delete marker; a key has at most one null version."""
        kept = [old for old in self.keys.get(key, []) if version.id != NULL or old.id != NULL]
        self.keys[key] = [version, *kept]

    def remove(self, key: str, version: str) -> ModelVersion | None:
        """Delete a version permanently."""
        versions = self.keys.get(key, [])
        for index, old in enumerate(versions):
            if old.id == version:
                del versions[index]
                if not versions:
                    del self.keys[key]
                return old
        return None

    def versions(self) -> Iterator[tuple[str, ModelVersion, bool]]:
        """All versions in listing order, and whether each is the latest of its key."""
        for key in sorted(self.keys, key=str.encode):
            for index, version in enumerate(self.keys[key]):
                yield key, version, index == 0


@dataclass(frozen=True, slots=True)
class Rolled:
    """A common prefix."""

    prefix: str


def list_keys(keys: Sequence[str], prefix: str, delimiter: str, after: str = "") -> list[str | Rolled]:
    """The entries of a listing: keys and common prefixes in order. A key may be given more than once.

    A start after a common prefix excludes all its keys, because the previous page contained the prefix.
    """
    listed: list[str | Rolled] = []
    for key in sorted(keys, key=str.encode):
        if not key.startswith(prefix) or key.encode() <= after.encode():
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if not found:
            listed.append(key)
            continue
        rolled = Rolled(prefix + head + found)
        if rolled not in listed[-1:] and rolled.prefix != after:
            listed.append(rolled)
    return listed
