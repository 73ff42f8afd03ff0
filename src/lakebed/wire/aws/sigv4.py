"""AWS Signature Version 4: canonical requests, strings to sign and signatures. Pure.

The canonical request is built from the raw target and header values. Clients encode paths differently before signing:
once as S3 specifies, with other reserved characters, or twice as for other AWS services. So after a mismatch,
verification tries the other encodings.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from calendar import timegm
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from lakebed.core.secrets import Secret

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
SERVICES: Final = frozenset({"s3", "s3tables", "sts"})
"""Services that clients sign for; table clients sign catalog requests for `s3tables`."""

MAX_PRESIGNED_SECONDS: Final = 7 * 24 * 3600

MAX_CACHED_CHARS: Final = 2048
"""Longer queries and credentials are not cached, so that anonymous clients cannot grow the caches."""

_BASE64_SHA256_CHARS: Final = 44
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_S3_SCOPE: Final = "/s3/aws4_request"
_RAW: Final = "surrogateescape"
_UNRESERVED: Final = "-_.~"
_NORMAL: Final = re.compile(
    r"(?:[A-Za-z0-9._~-]|%(?:2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]|[0189A-F][0-9A-F]))*", re.ASCII
)
"""Canonically encoded components: exactly the reserved characters are encoded, in upper case."""


class MalformedSignature(ValueError):
    """The authorization cannot be parsed. The message is S3's, and follows a semicolon."""


class CredentialScope(NamedTuple):
    """The access key and the scope of a signature."""

    access_key: str
    date: str
    region: str
    service: str

    @property
    def text(self) -> str:
        """The scope in the string to sign."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


class SignedHeaders:
    """The names of the signed headers: usually the same in all requests of a client."""

    __slots__ = ("_pick", "_template", "names", "text")

    def __init__(self, text: str) -> None:
        """`text` has the names in signing order, separated by semicolons."""
        self.text = text
        self.names = tuple(text.split(";"))
        self._pick = itemgetter(*self.names)
        self._template = "".join([f"{name}:%s\n" for name in text.replace("%", "%%").split(";")])

    def lines(self, headers: Mapping[str, str]) -> str:
        """Their lines in the canonical request. Raises MalformedSignature if a signed header is missing."""
        try:
            lines: str = self._template % self._pick(headers)
        except KeyError:
            return canonical_headers(headers, self.names)
        if "  " in lines or ": " in lines or " \n" in lines:
            # Spaces that may have to be normalized.
            return canonical_headers(headers, self.names)
        return lines


@lru_cache(maxsize=1024)
def _cached_names(text: str) -> SignedHeaders:
    return SignedHeaders(text)


def signed_headers(text: str) -> SignedHeaders:
    """The signed headers of a text, cached."""
    return _cached_names(text) if len(text) <= MAX_CACHED_CHARS else SignedHeaders(text)


@dataclass(frozen=True, slots=True)
class Authorization:
    """A parsed `Authorization` header, without its signature."""

    scope: CredentialScope
    scope_text: str
    signed: SignedHeaders


def parse_scope(text: str) -> CredentialScope:
    """Parse `KEY/DATE/REGION/SERVICE/aws4_request`. A key may itself contain slashes. Raises MalformedSignature."""
    return _cached_scope(text) if len(text) <= MAX_CACHED_CHARS else _parse_scope(text)


def _parse_scope(text: str) -> CredentialScope:
    pieces = text.rsplit("/", 4)
    if (
        len(pieces) != 5
        or not pieces[0]
        or not text.isascii()
        or "\0" in text
        or (pieces[4] != "aws4_request" and "/" in pieces[0])
    ):
        raise MalformedSignature(
            'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".'
        )
    key, date, region, service, terminal = pieces
    if terminal != "aws4_request":
        raise MalformedSignature(f'incorrect terminal "{terminal}". This endpoint uses "aws4_request".')
    if service not in SERVICES:
        raise MalformedSignature(f'incorrect service "{service}". This endpoint belongs to "s3".')
    if len(date) != 8 or not (date.isascii() and date.isdigit()):
        raise MalformedSignature(
            f'incorrect date format "{date}". This date in the credential must be in the format "yyyyMMdd".'
        )
    return CredentialScope(key, date, region, service)


_cached_scope: Final = lru_cache(maxsize=1024)(_parse_scope)


def _parse_prefix(prefix: str) -> Authorization:
    """Parse the header without its signature: all requests of a client with the same headers share it for a day."""
    scheme, _, rest = prefix.partition(" ")
    if scheme != ALGORITHM:
        raise MalformedSignature("the signing algorithm is not AWS4-HMAC-SHA256.")
    fields = _fields(rest)
    for required in ("Credential", "SignedHeaders"):
        if required not in fields:
            raise MalformedSignature(f"missing {required}.")
    for name in fields:
        if name not in ("Credential", "SignedHeaders"):
            raise MalformedSignature(f'the authorization component "{name}" is malformed.')
    scope = parse_scope(fields["Credential"])
    return Authorization(scope, scope.text, signed_headers(fields["SignedHeaders"]))


_cached_prefix: Final = lru_cache(maxsize=1024)(_parse_prefix)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, separator, value = item.partition("=")
        if not separator:
            raise MalformedSignature(f'the authorization component "{item}" is malformed.')
        fields[name] = value
    return fields


def _check_components(header: str) -> None:
    """Check that a header has its three components. Raises MalformedSignature."""
    items = header.partition(" ")[2].split(",")
    if len(items) != 3:
        raise MalformedSignature(
            "the authorization header requires three components: Credential, SignedHeaders, and Signature."
        )
    fields = _fields(",".join(items))
    for required in ("Credential", "SignedHeaders", "Signature"):
        if required not in fields:
            raise MalformedSignature(f"missing {required}.")


def parse_authorization(header: str) -> tuple[Authorization, str]:
    """The parsed header and its signature. Raises MalformedSignature."""
    prefix, separator, signature = header.partition("Signature=")
    if not separator or header.count(",") != 2:
        _check_components(header)
    rest = ""
    if "," in signature:
        # The order of the components is not fixed.
        signature, _, rest = signature.partition(",")
    signature = signature.strip()
    if len(signature) != 64:
        _check_components(header)
        raise MalformedSignature("the Signature is not 64 hexadecimal digits.")
    prefix += rest
    parse = _cached_prefix if len(prefix) <= MAX_CACHED_CHARS else _parse_prefix
    return parse(prefix), signature


@lru_cache(maxsize=16)
def _day_start(date: str) -> int:
    return timegm((int(date[:4]), int(date[4:6]), int(date[6:8]), 0, 0, 0))


@lru_cache(maxsize=256)
def parse_amz_date(text: str) -> int:
    """Seconds since the epoch of `YYYYMMDDTHHMMSSZ`. Raises MalformedSignature."""
    digits = text[:8] + text[9:15]
    if len(text) != 16 or text[8] != "T" or text[15] != "Z" or not (digits.isascii() and digits.isdigit()):
        raise MalformedSignature("the date is not of the form YYYYMMDDTHHMMSSZ.")
    hours, minutes, seconds = int(text[9:11]), int(text[11:13]), int(text[13:15])
    if (
        text[:4] == "0000"
        or hours > 23
        or minutes > 59
        or seconds > 60
        or not 1 <= int(text[4:6]) <= 12
        or not 1 <= int(text[6:8]) <= 31
    ):
        raise MalformedSignature("the date is not a time.")
    return _day_start(text[:8]) + hours * 3600 + minutes * 60 + seconds


class SigningKey:
    """The signing key of one credential scope."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: Secret, scope: CredentialScope) -> None:
        key = _hmac(b"AWS4" + secret.reveal().encode(), scope.date)
        for item in (scope.region, scope.service, "aws4_request"):
            key = _hmac(key, item)
        # The two hashes of an HMAC (RFC 2104) after the key block: copying them costs half of copying an object of
        # module `hmac`, and a third of creating one.
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(block.translate(_INNER))
        self._outer = hashlib.sha256(block.translate(_OUTER))

    def sign(self, text: str) -> str:
        """The hexadecimal signature of `text`."""
        inner = self._inner.copy()
        inner.update(text.encode("utf-8", _RAW))
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def canonical_headers(headers: Mapping[str, str], signed: tuple[str, ...]) -> str:
    """The lines of the signed headers. Raises MalformedSignature if one is missing."""
    lines = []
    for name in signed:
        value = headers.get(name)
        if value is None:
            if name == "expect":
                # Proxies and servers consume it; its only value is this.
                value = "100-continue"
            elif name == "content-length":
                value = "0"
            else:
                raise MalformedSignature(f"the signed header {name} was not sent.")
        if "  " in value or value[:1] == " " or value[-1:] == " ":
            value = " ".join(value.split())
        lines.append(f"{name}:{value}\n")
    return "".join(lines)


def canonical_query(raw_query: str, *, without: str | None = None) -> str:
    """The query sorted by encoded name, then value."""
    if not raw_query:
        return ""
    pairs = raw_query.split("&")
    if without is not None:
        given = f"{without}="
        pairs = [pair for pair in pairs if pair != without and not pair.startswith(given)]
    # Consecutive presigned URLs share most of their parameters.
    normalise = _cached_pair if len(raw_query) <= MAX_CACHED_CHARS else _normalise_pair
    return "&".join([text for _, _, text in sorted([normalise(pair) for pair in pairs if pair])])


def _normalise_pair(pair: str) -> tuple[str, str, str]:
    """A parameter's encoded name and value, to sort by, and its canonical text."""
    name, _, value = pair.partition("=")
    name, value = _normalise(name), _normalise(value)
    return name, value, f"{name}={value}"


_cached_pair: Final = lru_cache(maxsize=1024)(_normalise_pair)


def _normalise(component: str) -> str:
    if _NORMAL.fullmatch(component) is not None:
        return component
    return quote(unquote_to_bytes(component.replace("+", " ").encode("utf-8", _RAW)), safe=_UNRESERVED)


def canonical_paths(raw_path: str, *, twice: bool = False) -> Iterator[str]:
    """The encodings of a path that clients may have signed: as sent, encoded once, and with `twice`, encoded twice.

    `twice` is not for S3, whose keys may contain percent signs: a signature for `a%20b` would also match `a b`.
    """
    yield raw_path
    once = quote(unquote_to_bytes(raw_path.encode("utf-8", _RAW)), safe="/" + _UNRESERVED)
    if once != raw_path:
        yield once
    if twice:
        yield quote(raw_path.encode("utf-8", _RAW), safe="/" + _UNRESERVED)


def canonical_payloads(payload_hash: str) -> Iterator[str]:
    """The payload hashes that clients may have signed: as sent, and in hexadecimal if sent in base64.

    Iceberg's Java client sends base64 in the header but signs hexadecimal.
    """
    yield payload_hash
    if len(payload_hash) == _BASE64_SHA256_CHARS:
        with suppress(binascii.Error):
            yield base64.b64decode(payload_hash, validate=True).hex()


def canonical_request(method: str, path: str, query: str, header_lines: str, signed: str, payload_hash: str) -> str:
    """The canonical request."""
    return f"{method}\n{path}\n{query}\n{header_lines}\n{signed}\n{payload_hash}"


def string_to_sign(canonical: str, amz_date: str, scope: str) -> str:
    """The string to sign of a canonical request."""
    digest = hashlib.sha256(canonical.encode("utf-8", _RAW)).hexdigest()
    return f"{ALGORITHM}\n{amz_date}\n{scope}\n{digest}"


def signature_matches(
    key: SigningKey,
    signature: str,
    *,
    method: str,
    raw_path: str,
    query: str,
    header_lines: str,
    signed: str,
    payload_hash: str,
    amz_date: str,
    scope: str,
    twice: bool = False,
) -> bool:
    """Whether `signature` matches this request with any encoding of its path; each comparison takes constant time.

    `twice` accepts paths that are encoded twice also for S3.
    """
    for payload in canonical_payloads(payload_hash):
        for path in canonical_paths(raw_path, twice=twice or not scope.endswith(_S3_SCOPE)):
            canonical = canonical_request(method, path, query, header_lines, signed, payload)
            if equal(key.sign(string_to_sign(canonical, amz_date, scope)), signature):
                return True
    return False


def sha256_hex(body: bytes) -> str:
    """The hexadecimal payload hash."""
    return hashlib.sha256(body).hexdigest()


def equal(one: str, other: str) -> bool:
    """Compare two signatures in constant time."""
    return one.isascii() and other.isascii() and hmac.compare_digest(one, other)


class SigningKeyCache:
    """Caches signing keys by scope, since deriving one costs four HMACs."""

    __slots__ = ("_keys", "_limit")

    def __init__(self, limit: int = 4096) -> None:
        self._keys: dict[tuple[CredentialScope, str], SigningKey] = {}
        self._limit = limit

    def get(self, scope: CredentialScope, secret: Secret) -> SigningKey:
        """The key of `scope`. The secret is part of the cache key, so a rotated secret gets a new signing key."""
        index = (scope, secret.reveal())
        key = self._keys.get(index)
        if key is None:
            if len(self._keys) >= self._limit:
                self._keys.clear()
            key = self._keys[index] = SigningKey(secret, scope)
        return key
