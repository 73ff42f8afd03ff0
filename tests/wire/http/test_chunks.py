from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.wire.http.chunks import MAX_LINE_BYTES, MAX_TRAILER_BYTES, ChunkDecoder, MalformedChunks


def encode(chunks: list[bytes], *, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks if chunk)
    return framed + b"0\r\n" + trailer + b"\r\n"


def decode(*pieces: bytes) -> tuple[bytes, bytes, bool]:
    """The body, the bytes after it, and whether its end was reached."""
    decoder = ChunkDecoder()
    body, rest = b"", b""
    for piece in pieces:
        found, used = decoder.feed(piece)
        body += b"".join(found)
        rest += piece[used:]
    return body, rest, decoder.is_done


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(
    st.lists(st.binary(max_size=300), max_size=8),
    st.sampled_from([b"", b";name=value", b' ; name="quoted"']),
    st.sampled_from([b"", b"X-Checksum: abc\r\n"]),
    st.binary(max_size=40),
    st.lists(st.integers(0, 5000), max_size=30),
)
def test_chunks_split_anywhere_decode_to_the_body_and_leave_the_rest(
    chunks: list[bytes], extension: bytes, trailer: bytes, rest: bytes, places: list[int]
) -> None:
    data = encode(chunks, extension=extension, trailer=trailer) + rest
    assert decode(*cut(data, places)) == (b"".join(chunks), rest, True)


def test_body_decodes_byte_by_byte() -> None:
    data = encode([b"hello", b"w" * 40])
    assert decode(*(data[index : index + 1] for index in range(len(data)))) == (b"hello" + b"w" * 40, b"", True)


def test_body_without_its_end_is_not_done() -> None:
    data = encode([b"hello"])
    for end in range(len(data)):
        assert decode(data[:end])[2] is False


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\na\r\n",
        b"0x1\r\na\r\n",
        b"1_0\r\n",
        b" 1\r\na\r\n",
        b"1\na\r\n",
        b"1\r\nab\r\n",
        b"1\r\na\n",
        b"1;a\rb\r\na\r\n",
        b"1000000000000000\r\n",
        b"0\r\nX: 1\n\r\n",
        b"1;" + b"x" * MAX_LINE_BYTES + b"\r\na\r\n",
        b"0\r\n" + b"X: %b\r\n" % (b"v" * 1000) * (MAX_TRAILER_BYTES // 1000 + 1) + b"\r\n",
    ],
)
def test_ambiguous_framing_is_rejected(data: bytes) -> None:
    with pytest.raises(MalformedChunks):
        decode(data)
    with pytest.raises(MalformedChunks):
        decode(*(data[index : index + 1] for index in range(len(data))))


def test_line_without_an_end_is_bounded() -> None:
    with pytest.raises(MalformedChunks):
        decode(b"1;", *[b"x" * 7] * MAX_LINE_BYTES)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_random_bytes_have_the_same_outcome_wherever_they_are_split(noise: bytes, places: list[int]) -> None:
    def outcome(pieces: list[bytes]) -> tuple[bytes, bytes, bool] | None:
        try:
            return decode(*pieces)
        except MalformedChunks:
            return None

    assert outcome([noise]) == outcome(cut(noise, places))
