"""The object store as a few lists and dictionaries: what the real one is compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.objects.config.versioning import Versioning

NULL = "null"


def md5(body: bytes) -> str:
    """The ETag of an object put whole."""
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
        """Whether it only hides what is behind it."""
        return self.body is None


@dataclass(slots=True)
class ModelUpload:
    """A multipart upload: under way, or completed with these parts and this answer."""

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
        """What a GET finds."""
        versions = self.keys.get(key)
        return None if not versions or versions[0].is_marker else versions[0]

    def add(self, key: str, version: ModelVersion) -> None:
        """Put a version or a marker in front; the null version is only ever one."""
        kept = [old for old in self.keys.get(key, []) if version.id != NULL or old.id != NULL]
        self.keys[key] = [version, *kept]

    def remove(self, key: str, version: str) -> ModelVersion | None:
        """Remove a version for good."""
        versions = self.keys.get(key, [])
        for index, old in enumerate(versions):
            if old.id == version:
                del versions[index]
                if not versions:
                    del self.keys[key]
                return old
        return None

    def versions(self) -> Iterator[tuple[str, ModelVersion, bool]]:
        """All versions in the order of a listing, and whether each is its key's latest."""
        for key in sorted(self.keys, key=str.encode):
            for index, version in enumerate(self.keys[key]):
                yield key, version, index == 0


@dataclass(frozen=True, slots=True)
class Rolled:
    """A common prefix in a listing."""

    prefix: str


def list_keys(keys: Sequence[str], prefix: str, delimiter: str, after: str = "") -> list[str | Rolled]:
    """What a listing tells, keys and common prefixes in their order. A key may be given more than once.

    What starts after a common prefix leaves out all of it: a page that ended there has told it already.
    """
    told: list[str | Rolled] = []
    for key in sorted(keys, key=str.encode):
        if not key.startswith(prefix) or key.encode() <= after.encode():
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if not found:
            told.append(key)
            continue
        rolled = Rolled(prefix + head + found)
        if rolled not in told[-1:] and rolled.prefix != after:
            told.append(rolled)
    return told
