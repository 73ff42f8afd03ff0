"""Selects from Avro objects, including malicious ones."""

from __future__ import annotations

import io
import json
import zlib
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.formats.avro import MAX_BLOCK_BYTES
from lakebed.select.formats.avro_schema import MAX_DEPTH, MAX_SCHEMA_BYTES, MAX_TYPES
from lakebed.select.model import MAX_RECORD_BYTES, AvroInput

from .running import rows, select

COUNT = "SELECT COUNT(*) FROM S3Object s"
SYNC = bytes(16)


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def container(schema: Any, *blocks: tuple[int, bytes], codec: bytes = b"null") -> bytes:
    """A file with these blocks, each with its number of records and stored content."""
    written = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    header = b"Obj\x01" + number(2) + text(b"avro.schema") + text(written) + text(b"avro.codec") + text(codec)
    return header + number(0) + SYNC + b"".join(number(count) + text(stored) + SYNC for count, stored in blocks)


def record(*types: Any, name: str = "r") -> dict[str, Any]:
    fields = [{"name": f"f{place}", "type": one} for place, one in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def deflated(content: bytes, times: int = 1) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return b"".join(packer.compress(content) for _ in range(times)) + packer.flush()


def error_of(data: bytes) -> SelectError:
    with pytest.raises(SelectError) as raised:
        select("SELECT COUNT(*) FROM S3Object s WHERE s.f0 IS NOT NULL", data, AvroInput())
    return raised.value


def doubling(levels: int) -> dict[str, Any]:
    """A type that contains itself twice at each level."""
    types: list[Any] = [record("long", name="t0")]
    types += [record(f"t{level - 1}", f"t{level - 1}", name=f"t{level}") for level in range(1, levels)]
    return record(*types)


def nested(levels: int) -> Any:
    schema: Any = "long"
    for level in range(levels):
        schema = record(schema, name=f"n{level}")
    return schema


CONTAINS_ITSELF = record("long", {"type": "record", "name": "n", "fields": [{"name": "n", "type": ["null", "n"]}]})
HIDDEN_BY_A_NAMESPACE = {
    "type": "record",
    "name": "a.n",
    "fields": [{"name": "f0", "type": record("long", name="b.n")}, {"name": "f1", "type": ["null", "a.n"]}],
}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (container(CONTAINS_ITSELF, (1, b"\x00" + b"\x02" * 2_000_000 + b"\x00")), "contains itself. type=n"),
        (container(HIDDEN_BY_A_NAMESPACE, (1, b"\x02" * 2_000_000 + b"\x00")), "contains itself. type=a.n"),
        (container(doubling(24), (1, bytes(2**20))), "too many types"),
        (container(record(*["long"] * MAX_TYPES), (1, bytes(MAX_TYPES))), "too many types"),
        (container(nested(MAX_DEPTH), (1, b"\x00")), "nested too deeply"),
        (container(b'{"type":' * 100_000, (1, b"\x00")), "nested too deeply"),
        (container(record({"type": "array", "items": "null"}), (1, number(2**40) + b"\x00")), "items take no bytes"),
        (container(record(), (2**40, b"")), "records take no bytes"),
        (container(record("null"), (2**40, b"")), "records take no bytes"),
        (container(record("boolean", *["null"] * 20), (1, b"\x00")), "too many of its types take no bytes"),
        (
            container(record({"type": "array", "items": ["long", record(*["null"] * 9, name="e")]}), (1, b"\0")),
            "take no bytes",
        ),
        (container({**record("long"), "__fastavro_parsed": True}, (1, b"\x00")), "two underscores"),
        (container(record("other"), (1, b"\x00")), "it is not an Avro schema"),
        (container({"type": 7}, (1, b"\x00")), "it is not an Avro schema"),
        (container(b"no json", (1, b"\x00")), "it is not an Avro schema"),
        (container(b" " * (MAX_SCHEMA_BYTES + 1), (1, b"\x00")), "too large"),
    ],
)
def test_unsafe_schema_is_rejected(data: bytes, reason: str) -> None:
    found = error_of(data)
    assert found.code == "UnrecognizedFormatException"
    assert reason in str(found)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (container(record("long"), (2**40, b"\x00")), "fewer bytes than records"),
        (container(record("long"), (-1, b"\x00")), "fewer bytes than records"),
        (container(record("long"), (1, b"\x00\x00")), "more bytes than its records"),
        (container(record("long"), (1, b"\x00"))[:-1], "sync marker"),
        (container(record("long"), (1, b"\x00")) + b"\x80", "block header is truncated"),
        (container(record("long")) + number(1) + number(2**62), "block is too large"),
        (container(record("long")) + number(1) + number(-5), "block is too large"),
        (container(record("long"), (1, deflated(bytes(2**20), 512)), codec=b"deflate"), "too many bytes"),
        (container(record("long"), (1, b"\x00"), codec=b"lzma"), "unknown avro codec"),
        (container(record("bytes"), (1, number(2**31) + b"x")), "cannot be read as Avro"),
    ],
)
def test_block_with_false_sizes_is_rejected(data: bytes, reason: str) -> None:
    found = error_of(data)
    assert found.code == "UnrecognizedFormatException"
    assert reason in str(found)


def test_record_size_is_limited_as_in_other_formats() -> None:
    fits, too_long = bytes(MAX_RECORD_BYTES - 4), bytes(MAX_RECORD_BYTES)
    assert rows(COUNT, container(record("bytes"), (2, text(fits) * 2)), AvroInput()) == ["2"]
    for others in (0, 3):
        found = error_of(container(record("bytes"), (1 + others, text(too_long) + text(b"x" * 900_000) * others)))
        assert found.code == "OverMaxRecordSize"


def test_items_are_limited_by_the_record_size() -> None:
    """A block's claimed number of items must not be allocated: each takes a hundred times its bytes in memory."""
    items = number(MAX_BLOCK_BYTES // 2) + b"\x00" * (MAX_BLOCK_BYTES // 2) + b"\x00"
    packed = deflated(items)
    found = error_of(container(record({"type": "array", "items": "boolean"}), (1, packed), codec=b"deflate"))
    assert found.code == "OverMaxRecordSize"


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_blocks_larger_than_a_record_are_read(codec: str) -> None:
    sink = io.BytesIO()
    values = [{"f0": place, "f1": f"{place:0500d}"} for place in range(20_000)]
    fastavro.writer(sink, record("long", ["null", "string"]), values, codec=codec, sync_interval=4 * MAX_RECORD_BYTES)
    query = "SELECT COUNT(*), SUM(s.f0), MAX(s.f1) FROM S3Object s"
    assert rows(query, sink.getvalue(), AvroInput()) == [f"20000,{sum(range(20_000))},{19_999:0500d}"]


def test_types_are_distinguished_by_full_names() -> None:
    inner = {"type": "record", "name": "x.r", "fields": [{"name": "v", "type": "long"}]}
    schema = {"type": "record", "name": "y.r", "fields": [{"name": "f0", "type": inner}, {"name": "f1", "type": "x.r"}]}
    assert rows("SELECT s.f0.v, s.f1.v FROM S3Object s", container(schema, (1, b"\x02\x04")), AvroInput()) == ["1,2"]


def test_few_fields_without_bytes_are_read() -> None:
    assert rows("SELECT s.f0, s.f1 FROM S3Object s", container(record("long", "null"), (1, b"\x02")), AvroInput()) == [
        "1,"
    ]


@given(st.data())
def test_any_bytes_are_read_or_rejected(data: st.DataObject) -> None:
    sink = io.BytesIO()
    fastavro.writer(sink, record("long", ["null", "string"]), [{"f0": 1, "f1": "a"}, {"f0": 2, "f1": None}])
    noisy = bytearray(sink.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        noisy[data.draw(st.integers(0, len(noisy) - 1))] = data.draw(st.integers(0, 255))
    with suppress(SelectError):
        rows(COUNT, bytes(noisy), AvroInput())
