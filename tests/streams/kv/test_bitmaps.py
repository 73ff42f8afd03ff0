"""Roaring bitmaps written by Java are read and joined; invalid ones are rejected."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.streams.kv.bitmaps import Bitmaps, bitmaps_32, bitmaps_64
from lakebed.streams.kv.roaring64 import (
    Container,
    NotABitmap,
    check_long_bitmap,
    long_union,
    read_long_bitmap,
    write_long_bitmap,
)
from lakebed.streams.seam import MergeMode
from tests.contracts.kv_bucket import Bucket, KvBucketContract
from tests.fixtures.memory_index import MemoryIndex

MINUS_ONE, MINUS_FIVE = 2**64 - 1, 2**64 - 5
LIST = 2


def golden(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


EMPTY = golden("eNpjAAAAAQAB")
FEW = golden("eNpVjdENACEIQ2l1ATe9/T9EiifRJtDy0gR0+0UtlyMCFBLBqlIqAjxEV7uIp3jKMVMYbHkyyqDwN7a7b7fnqdoL3+oKww==")
RUNS = golden(
    "eNrN0asSwjAQheFNmjS9ps10cDgcDofD4XA4HMXgeH/BdpJmGea8AByTv5/KpCrQOh3IplCcRqw5r5AwElailHBcr1FxI9ZKdBK9hJcYJEb+kxnC"
    "fcQpFK9RNgXK1qDsLMq+RDk4lGOFcqpRzg3KpUW5dii3HuXuUZ4DymvMEV/lPaV45M+ZlI6n/dlJFL5+YbzqArb19dQ="
)
WIDE = golden(
    "eNrt06szRVEYhvG1t9txP+53x3G/sxXFjCEoiqIoiqIoiqIYM4qiKIqiKIqiKIqiKIqiKIq/wHi38/F5zMiKNfOcteYXzr6staMkFEZREuIQ8vvZ"
    "xcyvP1EoDj9HQUpUBKlQMaQ2vQqk8Wv1ObfZf7l0q1JInyqDDKsMZEKVQ2bsnlxmVSVkTlVBFlQ1ZEnVQJbt2VxWVBayquoga6oesq4aIBv2jlw2"
    "VRNkSzVDtlULZEe1QnbtXbvsqXbIgeqAHKpOyJHqghzbnrmcqBzkVPVAzlQecq56IRe29y6Xqh9ypQYg12oQcqOGILd2hlzu1AjkXo1CHtQY5FGN"
    "Q57sLLo8q0nIi5qCvKppk/SreptPF3H0caj/57+dOZJv63TL3gEwPybU"
)
BITS = golden("eNrt2tEJgDAMBcCkuIGzuZM7C1ZT+iGOoHcQ8nhkhGSLaYQeS7xV04ecTe2z7jP3NWID+KwAAAAAAACA38hWDwFHb8/ungso2anA")
REMOVED = golden("eNo9jAEOACAIAg/t/09uBcscuymiKl4VuhQLK8OQWG3J6Gd6uxOuCU7335JDDjKgATM=")
SHORT = golden("eNqzNmBh4GNgYGJgZEioZGL4/5+ZwZ73/38GBl0GBgZjILYFYmcg9gRiRqA6ZiAuEGRgWNAWX8kIFPv/H0SC9AAAwbgNoQ==")

# The contents of each bitmap. Versions 1.3 and 1.6 of the library write the same bytes, except for the last bitmap:
# after a removal only 1.3 leaves a prefix in a leaf.
MADE = {
    EMPTY: [],
    FEW: [1, 2, 3, 70_000, 1 << 40, MINUS_ONE],
    RUNS: [*range(100), *(number * 7 << 16 | 5 for number in range(1, 17))],
    WIDE: [number * 5 << 40 | 9 for number in range(49)],
    BITS: [*range(0, 10_000, 2), MINUS_FIVE],
    REMOVED: [1 << 16, (1 << 48) + (3 << 24)],
}


def numbers(bitmap: bytes) -> list[int]:
    """The numbers of a 64-bit bitmap, by a simple decoder."""
    found: list[int] = []
    for key, container in sorted(read_long_bitmap(bitmap).items()):
        high = int.from_bytes(key, "big") << 16
        words = [int.from_bytes(container.content[at : at + 2], "little") for at in range(0, len(container.content), 2)]
        if container.kind == 0:
            runs = zip(words[1::2], words[2::2], strict=True)
            found += [high | low for start, more in runs for low in range(start, start + more + 1)]
        elif container.kind == 1:
            bits = int.from_bytes(container.content, "little")
            found += [high | low for low in range(65_536) if bits >> low & 1]
        else:
            found += [high | low for low in words]
        assert len(words) in (container.size, 4096) or container.kind == 0
    return found


def bitmap_of(content: Iterable[int]) -> bytes:
    """A 64-bit bitmap with list containers only."""
    lists: dict[bytes, list[int]] = {}
    for number in sorted(content):
        lists.setdefault((number >> 16).to_bytes(6, "big"), []).append(number & 0xFFFF)
    return write_long_bitmap(
        {
            key: Container(LIST, len(low), b"".join(each.to_bytes(2, "little") for each in low))
            for key, low in lists.items()
        }
    )


@pytest.mark.parametrize("bitmap", MADE, ids=["empty", "few", "runs", "wide", "bits", "removed"])
def test_bitmaps_written_by_java_are_read(bitmap: bytes) -> None:
    check_long_bitmap(bitmap)
    assert numbers(bitmap) == MADE[bitmap]
    assert numbers(long_union(bitmap, EMPTY)) == MADE[bitmap]
    assert numbers(long_union(EMPTY, bitmap)) == MADE[bitmap]


@pytest.mark.parametrize(("bitmap", "tree_bytes"), [(EMPTY, 1), (RUNS, 580), (WIDE, 927)], ids=["empty", "48", "256"])
def test_written_tree_equals_that_of_java(bitmap: bytes, tree_bytes: int) -> None:
    """Containers differ: Java reserves space for more of them."""
    assert write_long_bitmap(read_long_bitmap(bitmap))[:tree_bytes] == bitmap[:tree_bytes]


@pytest.mark.parametrize("one", MADE, ids=["empty", "few", "runs", "wide", "bits", "removed"])
@pytest.mark.parametrize("other", MADE, ids=["empty", "few", "runs", "wide", "bits", "removed"])
def test_union_of_java_bitmaps(one: bytes, other: bytes) -> None:
    assert numbers(long_union(one, other)) == sorted({*MADE[one], *MADE[other]})


some_numbers = st.lists(
    st.integers(0, 2**64 - 1) | st.integers(0, 300).map(lambda byte: byte << 24) | st.integers(0, 200_000), max_size=80
)


@pytest.mark.slow
@given(one=some_numbers, other=some_numbers)
def test_union_of_any_two_sets(one: list[int], other: list[int]) -> None:
    assert numbers(long_union(bitmap_of(set(one)), bitmap_of(set(other)))) == sorted({*one, *other})


def test_union_is_compressed_to_runs() -> None:
    joined = long_union(bitmap_of(range(0, 60_000, 2)), bitmap_of(range(1, 60_000, 2)))
    assert numbers(joined) == list(range(60_000))
    assert len(joined) < 100


def test_containers_of_unusual_cardinality_are_read() -> None:
    """Java distinguishes lists and bits by the container type, other libraries by the cardinality."""
    many = b"".join(each.to_bytes(2, "little") for each in range(0, 10_000, 2))
    long_list = write_long_bitmap({bytes(6): Container(LIST, 5000, many)})
    few_bits = write_long_bitmap({bytes(6): Container(1, 3, (0b10110).to_bytes(8192, "little"))})
    check_long_bitmap(long_list)
    check_long_bitmap(few_bits)
    assert numbers(long_union(few_bits, long_list)) == sorted({1, 2, 4, *range(0, 10_000, 2)})


BAD = {
    "nothing": b"",
    "text": b"not a bitmap at all",
    "another beginning": b"\2" + FEW[1:],
    "cut": FEW[:-1],
    "a key less": FEW[:1] + b"\7" + FEW[2:],
    "not in ascending order": write_long_bitmap({bytes(6): Container(LIST, 2, b"\2\0\1\0")}),
    "twice": write_long_bitmap({bytes(6): Container(LIST, 2, b"\1\0\1\0")}),
    "none": write_long_bitmap({bytes(6): Container(LIST, 0, b"")}),
    "other bits": write_long_bitmap({bytes(6): Container(1, 5000, bytes(8192))}),
    "fewer bits": write_long_bitmap({bytes(6): Container(1, 3, bytes(8192))}),
    "runs over each other": write_long_bitmap({bytes(6): Container(0, 4, b"\2\0\1\0\1\0\2\0\1\0")}),
    "no such kind": write_long_bitmap({bytes(6): Container(7, 1, b"\1\0")}),
    "not terminated": b"\1" + bytes(8) + b"\0\1\0\0" * 5000,
    "of 32 bits": SHORT,
}


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
def test_invalid_64_bit_bitmaps_are_rejected(bad: bytes) -> None:
    for call in (lambda: check_long_bitmap(bad), lambda: long_union(FEW, bad), lambda: long_union(bitmap_of([7]), bad)):
        with pytest.raises(NotABitmap):
            call()


@pytest.mark.slow
@given(data=st.data())
def test_corrupted_bitmap_is_rejected_or_joined(data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from([FEW, RUNS, REMOVED, bitmap_of(range(0, 2**40, 2**33))])))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        check_long_bitmap(bytes(changed))
    except NotABitmap:
        return
    assert numbers(long_union(FEW, bytes(changed))) == sorted({*MADE[FEW], *numbers(bytes(changed))})


def test_32_bit_bitmaps_use_the_common_format() -> None:
    there = {1, 2, 3, 70_000, 2**32 - 1, *range(100_000, 200_000)}
    joined = bitmaps_32("c").union(SHORT, BitMap([5, 70_001]).serialize())
    assert set(BitMap.deserialize(joined)) == there | {5, 70_001}
    assert len(bitmaps_32("c").union(BitMap(range(0, 9000, 2)).serialize(), BitMap(range(1, 9000, 2)).serialize())) < 30


@pytest.mark.parametrize("bad", [b"", b"text", SHORT[:-1], FEW, BitMap([5, 9]).serialize()[:-4] + b"\x09\0\x05\0"])
def test_invalid_32_bit_bitmaps_are_rejected(bad: bytes) -> None:
    for call in (lambda: bitmaps_32("seen").check(bad), lambda: bitmaps_32("seen").union(SHORT, bad)):
        with pytest.raises(FlussError, match=r"invalid RoaringBitmap\. column=seen") as failed:
            call()
        assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN


def schema_of(function: str) -> Schema:
    columns = [
        {"name": "k", "data_type": {"type": "INTEGER"}},
        {"name": "seen", "data_type": {"type": "BYTES"}, "agg_function": {"type": function}},
        {"name": "also", "data_type": {"type": "BYTES"}, "agg_function": {"type": function}},
    ]
    return Schema.parse({"columns": columns, "primary_key": ["k"]})


KINDS = [
    pytest.param("rbm32", bitmaps_32("c"), lambda each: BitMap(each).serialize(), id="32"),
    pytest.param("rbm64", bitmaps_64("c"), bitmap_of, id="64"),
]


async def opened(function: str, format_: str = "COMPACTED") -> Bucket:
    properties = {"table.merge-engine": "aggregation", "table.kv.format": format_}
    return await KvBucketContract().open(MemoryIndex, schema_of(function), properties)


@pytest.mark.parametrize("format_", ["COMPACTED", "INDEXED"])
@pytest.mark.parametrize(("function", "kind", "make"), KINDS)
async def test_column_aggregates_all_bitmaps(function: str, kind: Bitmaps, make: object, format_: str) -> None:
    assert callable(make)
    bucket = await opened(function, format_)
    await bucket.put((1, make([1, 2]), None), (1, None, None), (1, make([2, 70_000]), make([9])))
    await bucket.put((1, make([5]), None))
    await bucket.put((1, None, make([7])), columns=[0, 2])
    found = await bucket.row(1)
    assert found is not None
    assert found[1:] == (kind.union(make([1, 2, 5, 70_000]), make([])), kind.union(make([7, 9]), make([])))
    assert [change[0] for change in await bucket.changelog()] == ["+I", *["-U", "+U"] * 4]
    await bucket.kv.close()


@pytest.mark.parametrize("mode", list(MergeMode))
@pytest.mark.parametrize(("function", "kind", "make"), KINDS)
async def test_batch_with_an_invalid_bitmap_is_rejected_as_a_whole(
    function: str, kind: Bitmaps, make: object, mode: MergeMode
) -> None:
    """Both for existing keys and for the first row of a key."""
    assert callable(make)
    bucket = await opened(function)
    await bucket.put((1, make([1]), None))
    for row in ((1, b"bad", None), (2, b"bad", None), (2, None, b"bad"), (1, b"", None)):
        with pytest.raises(FlussError) as failed:
            await bucket.put((3, make([3]), None), row, mode=mode)
        assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
    with pytest.raises(FlussError):
        await bucket.put((2, None, b"bad"), columns=[0, 2], mode=mode)
    with pytest.raises(FlussError):
        await bucket.put((2, b"bad", make([1])), columns=[0, 1], mode=mode)
    assert [await bucket.row(key) for key in (1, 2, 3)] == [(1, make([1]), None), None, None]
    assert bucket.log.end_offset == 1
    await bucket.kv.close()


async def test_overwrite_replaces_the_bitmap() -> None:
    bucket = await opened("rbm32")
    one, other = BitMap([1]).serialize(), BitMap([2]).serialize()
    await bucket.put((1, one, None))
    await bucket.put((1, other, None), mode=MergeMode.OVERWRITE)
    assert await bucket.row(1) == (1, other, None)
    await bucket.kv.close()
