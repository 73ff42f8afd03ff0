"""Event stream messages: known vectors, splits of the bytes, corruption, and random input."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import Incomplete, IntegrityMismatch, InvalidInput
from lakebed.core.event_stream import OVERHEAD_BYTES, EventStreamDecoder, EventStreamMessage, encode_headers, frame

CONT = (
    "00000039" "00000029" "8ba19df2"
    + "0d3a6d6573736167652d74797065" "07" "0005" "6576656e74"
    + "0b3a6576656e742d74797065" "07" "0004" "436f6e74"
    + "9c864a0d"
)  # fmt: skip
END = (
    "00000038" "00000028" "c1c684d4"
    + "0d3a6d6573736167652d74797065" "07" "0005" "6576656e74"
    + "0b3a6576656e742d74797065" "07" "0003" "456e64"
    + "cf97d392"
)  # fmt: skip

names = st.text(min_size=1, max_size=40).filter(lambda name: len(name.encode()) <= 255)
headers = st.dictionaries(names, st.text(max_size=200), max_size=6)
messages = st.builds(EventStreamMessage, headers, st.binary(max_size=2000))


def encoded(message: EventStreamMessage) -> bytes:
    return frame(encode_headers(message.headers.items()), message.payload)


@pytest.mark.parametrize(("event", "vector"), [("Cont", CONT), ("End", END)])
def test_messages_without_payload_match_known_vectors(event: str, vector: str) -> None:
    assert frame(encode_headers([(":message-type", "event"), (":event-type", event)])).hex() == vector


def test_records_messages_match_known_vectors() -> None:
    words = encode_headers(
        [(":message-type", "event"), (":event-type", "Records"), (":content-type", "application/octet-stream")]
    )

    message = frame(words, b"1,2\n")

    assert len(words) == 85
    assert len(message) == 105
    assert message[8:12].hex() == "ea016f2e"
    assert message[-4:].hex() == "92d1b9eb"


@given(st.lists(messages, max_size=5), st.lists(st.integers(0, 12_000), max_size=8))
def test_messages_are_decoded_from_any_split_of_their_bytes(sent: list[EventStreamMessage], cuts: list[int]) -> None:
    whole = b"".join(map(encoded, sent))
    decoder = EventStreamDecoder()
    got: list[EventStreamMessage] = []
    bounds = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]

    for start, end in pairwise(bounds):
        got += decoder.feed(whole[start:end])
    decoder.finish()

    assert got == sent


@given(messages)
def test_lengths_match_the_encoded_bytes(message: EventStreamMessage) -> None:
    raw = encoded(message)

    total, headers_length = struct.unpack_from(">II", raw)

    assert total == len(raw) == OVERHEAD_BYTES + headers_length + len(message.payload)


@given(messages, st.data())
def test_flipped_bit_is_detected(message: EventStreamMessage, data: st.DataObject) -> None:
    raw = bytearray(encoded(message))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(IntegrityMismatch):
        list(EventStreamDecoder().feed(bytes(raw)))


@given(messages, st.data())
def test_truncated_message_is_incomplete(message: EventStreamMessage, data: st.DataObject) -> None:
    raw, decoder = encoded(message), EventStreamDecoder()

    assert list(decoder.feed(raw[: data.draw(st.integers(1, len(raw) - 1))])) == []
    with pytest.raises(Incomplete):
        decoder.finish()


@given(st.binary(max_size=400))
def test_any_bytes_are_rejected_or_incomplete(noise: bytes) -> None:
    decoder = EventStreamDecoder()
    try:
        list(decoder.feed(noise))
        decoder.finish()
    except (IntegrityMismatch, InvalidInput, Incomplete):
        return
    assert noise == b""


@given(st.binary(max_size=300))
def test_any_header_bytes_are_parsed_or_rejected(noise: bytes) -> None:
    try:
        (message,) = EventStreamDecoder().feed(frame(noise))
    except InvalidInput:
        return
    assert encode_headers(message.headers.items()) == noise


@pytest.mark.parametrize(
    ("total", "headers_length"),
    [(15, 0), (16, 1), (0, 0), (16 + 131_073, 131_073), (16 + 24 * 1024 * 1024 + 1, 0)],
)
def test_invalid_lengths_are_rejected_before_the_message_arrives(total: int, headers_length: int) -> None:
    prelude = struct.pack(">II", total, headers_length)

    with pytest.raises(InvalidInput):
        list(EventStreamDecoder().feed(prelude + struct.pack(">I", zlib.crc32(prelude))))


def test_non_string_headers_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="is not text"):
        list(EventStreamDecoder().feed(frame(b"\x01a\x00")))


@pytest.mark.parametrize("header", [("", "x"), ("n" * 256, "x"), ("name", "v" * 65_536)])
def test_unencodable_headers_are_rejected(header: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        encode_headers([header])
