from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.catalog.tables import files as files_module
from lakebed.catalog.tables.files import FileAddress, parse_location, unpack_metadata
from lakebed.core.errors import (
    InvalidInput,
    TooLarge,
)

# -- locations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://b/a/c", FileAddress("b", "a/c")),
        ("s3a://b/a/c", FileAddress("b", "a/c")),
        ("s3n://b/a/c/", FileAddress("b", "a/c/")),
        ("s3://b", FileAddress("b", "")),
        ("s3://b/", FileAddress("b", "")),
        ("s3://b/ü %2F+?*#", FileAddress("b", "ü %2F+?*#")),
        ("s3://b/...", FileAddress("b", "...")),
        ("s3://b/" + "k" * 1024, FileAddress("b", "k" * 1024)),
    ],
)
def test_location_is_parsed(text: str, address: FileAddress) -> None:
    assert parse_location(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b/a",
        "/b/a",
        "file:///b/a",
        "S3://b/a",
        "https://b/a",
        "s3:/b/a",
        "s3://",
        "s3:///a",
        "s3://b//a",
        "s3://b/a//c",
        "s3://b/./a",
        "s3://b/a/.",
        "s3://b/a/./",
        "s3://b/..",
        "s3://b/a/../c",
        "s3://b/a\\c",
        "s3://b/a\0",
        "s3://b/a\nc",
        "s3://b/\ud800",
        "s3://\ud800/a",
        "s3://b\0/a",
        "s3://b\n/a",
        "s3://b/" + "k" * 1025,
        "s3://b/" + "é" * 513,
    ],
)
def test_invalid_location_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_location(text)


@given(st.text(max_size=12).map(lambda key: "s3://b/" + key) | st.text(max_size=12))
@example("s3://b/\ud800")
def test_parsed_locations_round_trip(text: str) -> None:
    try:
        address = parse_location(text)
    except InvalidInput:
        return
    assert parse_location(str(address)) == address
    assert address.directory.endswith("/")
    assert not address.directory.endswith("//")
    assert ".." not in address.directory.split("/")


def test_directory_ends_in_a_slash() -> None:
    assert parse_location("s3://b/t").directory == parse_location("s3://b/t/").directory == "t/"
    assert not parse_location("s3://b/t10").directory.startswith(parse_location("s3://b/t").directory)


# -- packed metadata -------------------------------------------------------------------------------------------------


def test_gzip_metadata_is_detected_by_its_magic_bytes() -> None:
    assert unpack_metadata(b'{"a":1}') == b'{"a":1}'
    assert unpack_metadata(gzip.compress(b'{"a":1}')) == b'{"a":1}'


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"{}" * 99)[:-4], gzip.compress(b"{}")[:12], b"\x1f\x8bnot gzip", b"\x1f\x8b"],
    ids=["no-trailer", "half", "garbage", "magic-only"],
)
def test_corrupt_gzip_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        unpack_metadata(data)


def test_decompression_bomb_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_METADATA_BYTES", 1000)
    assert len(unpack_metadata(gzip.compress(b"0" * 1000))) == 1000
    with pytest.raises(TooLarge, match="maximum=1000"):
        unpack_metadata(gzip.compress(b"0" * 1001))


@given(st.binary(max_size=40))
def test_noise_is_plain_or_rejected(data: bytes) -> None:
    try:
        plain = unpack_metadata(b"\x1f\x8b" + data)
    except InvalidInput:
        return
    assert zlib.decompressobj(wbits=31).decompress(b"\x1f\x8b" + data) == plain
