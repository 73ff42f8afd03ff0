"""Encodes keys, conditions and checksums for one store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import NotSupported

from ..keys import full_key, own_key
from ..probe import CONDITIONS_TRUSTED, Capabilities, ETagStyle
from ..seam import IfAbsent, Key, WriteCondition
from .options import Checksum

_CHECKSUM_FIELD: Final[Mapping[Checksum, str]] = {
    "none": "",
    "crc32": "ChecksumCRC32",
    "crc32c": "ChecksumCRC32C",
    "crc64nvme": "ChecksumCRC64NVME",
    "sha256": "ChecksumSHA256",
}


@dataclass(frozen=True, slots=True)
class S3Encoding:
    """How requests to a store are written."""

    key_prefix: str = ""
    checksum: Checksum = "none"
    capabilities: Capabilities = CONDITIONS_TRUSTED

    def full_key(self, key: Key) -> str:
        """The key in the bucket. Raises InvalidName."""
        return full_key(self.key_prefix, key)

    def own_key(self, found: str) -> Key | None:
        """The key without the prefix; None for other keys, such as folder markers of other tools."""
        return own_key(self.key_prefix, found)

    def put_arguments(self, condition: WriteCondition | None) -> dict[str, object]:
        """Arguments of PutObject beyond key, body and metadata. Raises NotSupported."""
        if condition is not None and not self.capabilities.conditional_put:
            raise NotSupported("conditional writes are off, or the store does not support them")
        return {**self.checksum_arguments(), **self._condition_arguments(condition)}

    def complete_arguments(self, condition: WriteCondition | None) -> dict[str, object]:
        """Arguments of CompleteMultipartUpload beyond the parts. Raises NotSupported."""
        if condition is not None and not self.capabilities.conditional_complete:
            raise NotSupported("conditions on multipart completion are off, or the store does not support them")
        return self._condition_arguments(condition)

    def checksum_arguments(self) -> dict[str, object]:
        """Arguments that make the library add the configured checksum, if any."""
        return {} if self.checksum == "none" else {"ChecksumAlgorithm": self.checksum.upper()}

    @property
    def checksum_field(self) -> str:
        """The configured checksum's name in responses and part lists; empty for none."""
        return _CHECKSUM_FIELD[self.checksum]

    def _condition_arguments(self, condition: WriteCondition | None) -> dict[str, object]:
        if condition is None:
            return {}
        if isinstance(condition, IfAbsent):
            return {"IfNoneMatch": "*"}
        quoted = self.capabilities.etag_style is ETagStyle.QUOTED
        return {"IfMatch": quote_etag(condition.etag) if quoted else condition.etag}


def quote_etag(etag: str) -> str:
    """An ETag as in HTTP."""
    return f'"{etag}"'


def unquote_etag(etag: str) -> str:
    """An ETag without quotes."""
    return etag[1:-1] if len(etag) >= 2 and etag[0] == etag[-1] == '"' else etag


def is_xml_text(text: str) -> bool:
    """Whether XML 1.0 can represent the text: it excludes most control characters, and U+FFFE/F.

    It includes a carriage return, but parsers may read it as a line feed.
    """
    return all(character >= " " or character in "\t\n" for character in text) and not {"\ufffe", "\uffff"} & set(text)
