"""Corrupt and malicious files are rejected with a reason, at low cost."""

from __future__ import annotations

import io
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import cramjam
import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, TooLarge
from lakebed.iceberg.manifests import ReadLimits, read_manifest_list
from tests.iceberg.manifests.avro_files import (
    a_file,
    a_manifest,
    an_entry,
    avro_file,
    column,
    entry_schema,
    list_bytes,
    list_schema,
    manifest_bytes,
    optional,
    read_manifest,
)

SYNC = b"0123456789abcdef"
FILE = a_file(
    lower_bounds={1: b"abc", 2: b""},
    upper_bounds={1: b"abd", 2: b"zz"},
    value_counts={1: 10, 2: 300},
    split_offsets=(4,),
    partition=("eu",),
)
PARTITION = (("region", optional("string"), 1000),)
MANIFEST = manifest_bytes([an_entry(FILE), an_entry(FILE, snapshot_id=1)], version=3, partition=PARTITION, codec="null")
LIST = list_bytes([a_manifest(), a_manifest(key_metadata=b"k")], version=3, codec="null")


def number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def header(schema: Any, codec: bytes = b"null", extra: int = 0) -> bytes:
    entries = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec}
    entries.update({b"x%d" % n: b"" for n in range(extra)})
    packed = b"".join(text(key) + text(value) for key, value in entries.items())
    return b"Obj\x01" + number(len(entries)) + packed + number(0) + SYNC


def block(records: int, content: bytes) -> bytes:
    return number(records) + text(content) + SYNC


@contextmanager
def taking_at_most(size: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size


MIB = 1024 * 1024
PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"deflate": lambda content: zlib.compress(content, wbits=-15),
    b"zstandard": lambda content: zstandard.ZstdCompressor().compress(content),
    b"snappy": lambda content: bytes(cramjam.snappy.compress_raw(content)) + zlib.crc32(content).to_bytes(4, "big"),
}


class TestBombs:
    @pytest.mark.parametrize("codec", list(PACKERS))
    def test_block_is_decompressed_up_to_the_limit(self, codec: bytes) -> None:
        bomb = header(list_schema(2), codec) + block(1, PACKERS[codec](bytes(64 * MIB)))
        assert len(bomb) < 4 * MIB
        with taking_at_most(12 * MIB), pytest.raises(TooLarge, match="decompresses to too many bytes"):
            read_manifest_list(bomb, limits=ReadLimits(decoded_bytes=2 * MIB))

    def test_blocks_share_the_limit(self) -> None:
        data = header(list_schema(2), b"deflate") + block(0, PACKERS[b"deflate"](b"")) * 3
        read_manifest_list(data, limits=ReadLimits(decoded_bytes=0))
        many = [a_manifest(f"s3://lake/{n:0100}") for n in range(1_000)]
        with pytest.raises(TooLarge, match="decompresses to too many bytes"):
            read_manifest_list(list_bytes(many), limits=ReadLimits(decoded_bytes=100_000))

    def test_items_are_counted_before_decoding(self) -> None:
        """A record of pairs takes fifty times its encoded size as a dict."""
        schema = list_schema(2)
        summaries = number(1_000_000) + bytes(4_000_000) + number(0)
        record = text(b"s3://lake/m") + bytes(12) + number(1) + summaries + number(0)
        with taking_at_most(24 * MIB), pytest.raises(TooLarge, match="too many items"):
            read_manifest_list(header(schema) + block(1, record))

    def test_items_of_no_bytes_are_rejected(self) -> None:
        schema = list_schema(2)
        schema["fields"].insert(0, column("bomb", {"type": "array", "items": "null"}, 9000))
        with pytest.raises(InvalidInput, match="take no bytes"):
            read_manifest_list(header(schema) + block(1, number(2**60)))

    def test_more_items_than_bytes_are_rejected(self) -> None:
        schema = list_schema(2)
        schema["fields"].insert(0, column("bomb", {"type": "array", "items": "string"}, 9000))
        with pytest.raises(InvalidInput, match="ends within a record"):
            read_manifest_list(header(schema) + block(1, number(2**60)))

    def test_more_summaries_than_bytes_are_rejected(self) -> None:
        record = text(b"s3://lake/m") + bytes(12) + number(1) + number(2**60)
        with pytest.raises(InvalidInput, match="ends within a record"):
            read_manifest_list(header(list_schema(2)) + block(1, record))

    def test_recursive_type_is_rejected(self) -> None:
        schema = list_schema(2)
        schema["fields"].append(column("again", optional("manifest_file"), 9000))
        with pytest.raises(InvalidInput, match="contains itself"):
            read_manifest_list(header(schema))

    def test_deep_schemas_are_rejected(self) -> None:
        deep: Any = "int"
        for _ in range(100):
            deep = {"type": "array", "items": deep}
        schema = list_schema(2)
        schema["fields"].append(column("deep", deep, 9000))
        with pytest.raises(TooLarge, match="nested too deeply"):
            read_manifest_list(header(schema))

    def test_deeply_nested_json_is_rejected(self) -> None:
        nested = b"[" * 100_000
        data = b"Obj\x01" + number(1) + text(b"avro.schema") + text(nested) + number(0) + SYNC
        with pytest.raises(InvalidInput, match="not json"):
            read_manifest_list(data)

    def test_exponentially_expanding_names_are_rejected(self) -> None:
        fields = [column("n0", {"type": "record", "name": "n0", "fields": [column("x", "int", 1)]}, 8000)]
        for level in range(1, 30):
            twice = [column("a", f"n{level - 1}", 1), column("b", f"n{level - 1}", 2)]
            fields.append(column(f"n{level}", {"type": "record", "name": f"n{level}", "fields": twice}, 8000 + level))
        schema = list_schema(2)
        schema["fields"] += fields
        with pytest.raises(TooLarge, match="too many types"):
            read_manifest_list(header(schema))


class TestLimits:
    def test_bytes(self) -> None:
        read_manifest_list(LIST, limits=ReadLimits(encoded_bytes=len(LIST)))
        with pytest.raises(TooLarge, match="file is too large"):
            read_manifest_list(LIST, limits=ReadLimits(encoded_bytes=len(LIST) - 1))

    def test_records(self) -> None:
        read_manifest_list(LIST, limits=ReadLimits(records=2))
        with pytest.raises(TooLarge, match="too many records"):
            read_manifest_list(LIST, limits=ReadLimits(records=1))

    def test_number_of_records_is_limited(self) -> None:
        with pytest.raises(TooLarge, match="too many records"):
            read_manifest_list(header(list_schema(2)) + block(1_000_001, b""))

    def test_header_entries(self) -> None:
        assert read_manifest_list(header(list_schema(2), extra=1_022)) == []
        with pytest.raises(TooLarge, match="too many entries"):
            read_manifest_list(header(list_schema(2), extra=1_023))

    def test_schema(self) -> None:
        with pytest.raises(TooLarge, match="schema is too large"):
            read_manifest_list(LIST, limits=ReadLimits(schema_bytes=100))


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"", "not an avro"),
            (b"PAR1", "not an avro"),
            (b"Obj\x01", "ends within its header"),
            (b"Obj\x01\x00" + SYNC, "no schema"),
            (b"Obj\x01\x00" + SYNC[:-1], "ends within its header"),
            (header("int"), "expected=record"),
            (header({"type": "record", "name": "r"}), "has no fields"),
            (header({"type": "record", "name": "r", "fields": [{"type": "int"}]}), "field without a name"),
            (header({"type": "record", "name": "r", "fields": []}), "lacks a field"),
            (header({"type": "what", "name": "r"}), "not defined"),
            (header(7), "invalid type"),
            (header(list_schema(2), b"lzma"), "unknown avro codec"),
            (header(list_schema(2)) + block(-1, b""), "negative number of records"),
            (header(list_schema(2)) + block(0, b"x"), "has more bytes than its records"),
            (header(list_schema(2)) + block(1, b""), "ends within a record"),
            (header(list_schema(2)) + block(0, b"")[:-1], "sync marker"),
            (header(list_schema(2)) + number(0) + number(-5), "negative length"),
            (header(list_schema(2)) + b"\xff" * 11, "longer than 64 bits"),
            (header(list_schema(2)) + number(0) + number(99), "ends within a block"),
            (header(list_schema(2)) + block(1, text(b"\xff\xfe")), "not utf-8"),
            (header(list_schema(2), b"deflate") + block(1, b"\xff\xff"), "cannot be decompressed"),
            (header(list_schema(2), b"deflate") + block(1, PACKERS[b"deflate"](b"abc")[:-1]), "cannot be decompressed"),
            (header(list_schema(2), b"zstandard") + block(1, b"junk"), "cannot be decompressed"),
            (header(list_schema(2), b"snappy") + block(1, b"\x05junk1234"), "cannot be decompressed"),
            (header(list_schema(2), b"snappy") + block(1, PACKERS[b"snappy"](b"abc")[:-1] + b"?"), "wrong checksum"),
        ],
    )
    def test_error_describes_the_problem(self, data: bytes, reason: str) -> None:
        with pytest.raises(InvalidInput, match=reason):
            read_manifest_list(data)

    @pytest.mark.parametrize(
        ("avro", "content", "reason"),
        [
            ("string", number(-1), "negative length"),
            ("string", number(99) + b"abc", "ends within a record"),
            (["null", "int"], number(2), "no such branch"),
            (["null", "int"], number(-1), "no such branch"),
            ({"type": "array", "items": "string"}, number(2**40), "ends within a record"),
            ({"type": "array", "items": "string"}, number(-1) + number(-5), "negative length"),
            ({"type": "array", "items": "int"}, number(2**40), "ends within a record"),
            ({"type": "array", "items": "int"}, number(3) + b"\x80\x80\x80", "ends within a record"),
            ({"type": "map", "values": "int"}, number(1) + number(-1), "negative length"),
            ([], b"", "no branches"),
            ({"type": "fixed", "name": "f"}, b"", "no size"),
            ({"type": "fixed", "name": "f", "size": -1}, b"", "no size"),
            ({"type": "fixed", "size": 1}, b"", "no name"),
        ],
    )
    def test_skipped_fields_are_validated(self, avro: Any, content: bytes, reason: str) -> None:
        schema = list_schema(2)
        schema["fields"].insert(0, column("unknown", avro, 9000))
        with pytest.raises(InvalidInput, match=reason):
            read_manifest_list(header(schema) + block(1, content))

    @pytest.mark.parametrize(
        ("name", "avro"),
        [
            ("file_path", "bytes"),
            ("record_count", "string"),
            ("lower_bounds", {"type": "map", "values": "bytes"}),
            ("value_counts", optional({"type": "array", "items": "long"})),
            ("split_offsets", "long"),
            ("sort_order_id", ["null", "int", "long"]),
            ("partition", "int"),
        ],
    )
    def test_field_of_another_type_is_rejected(self, name: str, avro: Any) -> None:
        schema = entry_schema(2)
        fields = schema["fields"][-1]["type"]["fields"]
        (field,) = [field for field in fields if field["name"] == name]
        field["type"] = avro
        with pytest.raises(InvalidInput, match=f"field={name}"):
            read_manifest(header(schema), a_manifest())

    def test_null_in_a_required_field_is_rejected(self) -> None:
        schema = list_schema(2)
        schema["fields"][0]["type"] = optional("string")
        records: list[Any] = list(fastavro.reader(io.BytesIO(list_bytes([a_manifest()]))))
        records[0]["manifest_path"] = None
        with pytest.raises(InvalidInput, match=r"field is null.*path"):
            read_manifest_list(avro_file(schema, records))

    @pytest.mark.parametrize(
        ("bound", "reason"),
        [(number(-1), "negative length"), (number(99) + b"abc", "ends within a record"), (b"\x80", "ends within")],
    )
    def test_invalid_bound_is_rejected(self, bound: bytes, reason: str) -> None:
        before = number(1) + bytes(3) + bytes(1) + text(b"s3://f") + text(b"AVRO") + bytes(2) + bytes(4)
        content = before + number(1) + number(1) + number(7) + bound
        with pytest.raises(InvalidInput, match=reason):
            read_manifest(header(entry_schema(2)) + block(1, content), a_manifest())

    def test_truncated_fixed_value_is_rejected(self) -> None:
        partition = (("id", {"type": "fixed", "name": "id", "size": 16}, 1000),)
        before = number(1) + bytes(3) + bytes(1) + text(b"s3://f") + text(b"AVRO")
        with pytest.raises(InvalidInput, match="ends within a record"):
            read_manifest(header(entry_schema(2, partition)) + block(1, before + b"short"), a_manifest())

    def test_invalid_union_branch_is_rejected(self) -> None:
        with pytest.raises(InvalidInput, match="no such branch"):
            read_manifest(header(entry_schema(2)) + block(1, number(1) + number(2)), a_manifest())

    def test_offsets_of_several_types_are_rejected(self) -> None:
        schema = entry_schema(2)
        (field,) = [one for one in schema["fields"][-1]["type"]["fields"] if one["name"] == "split_offsets"]
        field["type"] = {"type": "array", "items": ["null", "int", "string"]}
        with pytest.raises(InvalidInput, match="items of several types"):
            read_manifest(header(schema), a_manifest())

    @given(st.integers(min_value=0, max_value=len(MANIFEST) - 1))
    def test_truncated_file_is_rejected(self, size: int) -> None:
        body = len(MANIFEST) - MANIFEST[::-1].index(MANIFEST[-16:][::-1], 16)  # the start of the only block
        if size == body:  # without a block, a valid empty manifest looks the same
            assert read_manifest(MANIFEST[:size], a_manifest()) == []
        else:
            with pytest.raises(InvalidInput):
                read_manifest(MANIFEST[:size], a_manifest())

    @given(st.data())
    def test_changed_bytes_are_read_or_rejected(self, data: st.DataObject) -> None:
        reading, original = data.draw(st.sampled_from([(_read_as_manifest, MANIFEST), (read_manifest_list, LIST)]))
        changed = bytearray(original)
        for at, byte in data.draw(
            st.lists(st.tuples(st.integers(0, len(original) - 1), st.integers(0, 255)), min_size=1, max_size=6)
        ):
            changed[at] = byte
        _read_or_refuse(reading, bytes(changed))

    @given(st.binary(max_size=200))
    def test_noise_in_a_block_is_read_or_rejected(self, noise: bytes) -> None:
        _read_or_refuse(_read_as_manifest, header(entry_schema(3, PARTITION)) + block(1, noise))
        _read_or_refuse(_read_without_statistics, header(entry_schema(3, PARTITION)) + block(1, noise))
        _read_or_refuse(read_manifest_list, header(list_schema(3)) + block(1, noise))
        _read_or_refuse(read_manifest_list, b"Obj\x01" + noise)

    @given(st.binary(max_size=60), st.sampled_from(list(PACKERS)))
    def test_compressed_noise_is_read_or_rejected(self, noise: bytes, codec: bytes) -> None:
        _read_or_refuse(read_manifest_list, header(list_schema(3), codec) + block(1, noise))
        _read_or_refuse(read_manifest_list, header(list_schema(3), codec) + block(1, PACKERS[codec](noise)))


JSON = st.recursive(
    st.none() | st.integers() | st.sampled_from(["int", "null", "string", "r", "bytes", "record", "array", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "items", "name", "size", "values"]), inner, max_size=4)
        | st.fixed_dictionaries(
            {"type": st.just("record"), "name": st.sampled_from(["r", "s"]), "fields": st.lists(
                st.fixed_dictionaries({"name": st.sampled_from(["manifest_path", "x"]), "type": inner}), max_size=3
            )}
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.binary(max_size=40))
def test_any_schema_is_used_or_rejected(schema: Any, content: bytes) -> None:
    whole = list_schema(3)
    whole["fields"].insert(1, {"name": "unknown", "type": schema, "field-id": 9000})
    _read_or_refuse(read_manifest_list, header(whole) + block(1, text(b"s3://lake") + content))
    _read_or_refuse(read_manifest_list, header(schema) + block(1, content))


def _read_as_manifest(data: bytes) -> Any:
    return read_manifest(data, a_manifest())


def _read_without_statistics(data: bytes) -> Any:
    return read_manifest(data, a_manifest(), columns=frozenset())


def _read_or_refuse(read: Callable[[bytes], Any], data: bytes) -> None:
    with suppress(InvalidInput):
        read(data)
