"""Elements that several documents share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakebed.core.checksums import Checksum

from ..xml import escape, url_encode


@dataclass(frozen=True, slots=True)
class OwnerElement:
    """Who owns a bucket and all that is in it."""

    id: str
    display_name: str


def owner_element(owner: OwnerElement | None, tag: str = "Owner") -> str:
    """The owner, or nothing."""
    if owner is None:
        return ""
    return f"<{tag}><ID>{escape(owner.id)}</ID><DisplayName>{escape(owner.display_name)}</DisplayName></{tag}>"


def optional(tag: str, text: str | None) -> str:
    """An element that is left out if there is no value for it."""
    return "" if text is None else f"<{tag}>{escape(text)}</{tag}>"


def optional_int(tag: str, number: int | None) -> str:
    """An element that is left out if there is no number for it."""
    return "" if number is None else f"<{tag}>{number}</{tag}>"


def checksum_element(checksum: Checksum | None) -> str:
    """A checksum under the name of its algorithm, or nothing."""
    if checksum is None:
        return ""
    return f"<Checksum{checksum.algorithm}>{checksum.text}</Checksum{checksum.algorithm}>"


def typed_checksum_elements(checksum: Checksum | None) -> str:
    """A checksum and, after it, its type; or nothing."""
    if checksum is None:
        return ""
    return f"{checksum_element(checksum)}<ChecksumType>{checksum.type}</ChecksumType>"


def checksum_kind_elements(algorithm: str | None, checksum_type: str | None) -> str:
    """Which checksum a listed thing has, without its value."""
    if algorithm is None:
        return ""
    kind = "" if checksum_type is None else f"<ChecksumType>{checksum_type}</ChecksumType>"
    return f"<ChecksumAlgorithm>{algorithm}</ChecksumAlgorithm>{kind}"


def text_encoder(is_url_encoded: bool) -> Callable[[str], str]:
    """How keys, prefixes, delimiters and markers of a listing are written."""
    return url_encode if is_url_encoded else escape


def encode_all(texts: Sequence[str], encode: Callable[[str], str]) -> list[str]:
    """Many texts encoded with one call: a page of keys costs a fifth of what one call a key does.

    The sign between them is one that no encoding touches and few keys have; if one has it, each goes alone.
    """
    joined = "~".join(texts)
    if not texts or joined.count("~") != len(texts) - 1:
        return [encode(text) for text in texts]
    return encode(joined).split("~")


def common_prefix_elements(prefixes: Sequence[str], encode: Callable[[str], str]) -> list[bytes]:
    """The common prefixes of a listing."""
    return [
        f"<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>".encode()
        for prefix in encode_all(prefixes, encode)
    ]


def boolean(value: bool) -> str:
    """As XML has it."""
    return "true" if value else "false"
