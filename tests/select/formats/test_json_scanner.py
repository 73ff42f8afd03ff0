"""The C scanner of JSON lines equals the general reader, and never reads beyond a buffer."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest
from hatch_build import JSON_LINES
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakebed.select.dialect.paths import FieldName, Index, Step
from lakebed.select.errors import SelectError
from lakebed.select.execution.relation import ReadAs
from lakebed.select.formats.json_relation import LineReader
from lakebed.select.formats.json_scanner import RECORD_COLUMN, JsonLibrary, line_scanner, load_library
from lakebed.select.formats.value_columns import ValueColumns
from tests.fixtures.c_libraries import compiled, fuzzed

FUZZ = Path(__file__).with_name("json_lines_fuzz.c")

NUMBERS = (
    *("0", "-0", "7", "-12", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("-9223372036854775809", "1" * 25, "1" * 250, "0.0", "-0.0", "1.0", "1.50", "0.1", "100.25", "0.001", "0.0001"),
    *(
        "0.00001",
        "123456789012345.5",
        "0.1234567890123456789",
        "12345678901234.25",
        "4503599627370497.5",
        "1e5",
        "1E+2",
    ),
    *("1.5e-7", "1e99", "1e-99", "1e400", "-1e999", "5e-324", "1e0010", "0.3", "2.675", "9007199254740993.0"),
)
WRONG = ("01", "+1", ".5", "1.", "-", "1e", "nan", "tru", "nulll", "'a'", "[1,]", "{,}", '{"a"}', '{"a":1,}', '"')
PIECES = (
    *(b"a", b"text", b"a text that is longer than a vector is", b" ", b"/", b"\x7f", "é".encode(), "😀".encode()),
    *(b"\\n", b"\\t", b"\\b", b"\\f", b"\\r", b'\\"', b"\\\\", b"\\/", b"\\u0041", b"\\u00e9", b"\\u00E9", b"\\u20ac"),
    *(b"\\u0000", b"\\u001f", b"\\u007f", b"\\ud83d\\ude00", b"1", b"true", b"FALSE", b"1.5"),
)
WRONG_PIECES = (
    *(b"\\ud800", b"\\ude00", b"\\ud83dx", b"\\ud83d\\u0041", b"\\x", b"\\u00g0", b"\t", b"\0", b"\r", b"\xff"),
    *(b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x80\x80\x80"),
)
SPACES = st.sampled_from([b""] * 8 + [b" ", b"\t", b"\r", b"  \t"])
PATHS: tuple[tuple[Step, ...], ...] = (
    (FieldName("a"),),
    (FieldName("b"),),
    (FieldName("a"), FieldName("b")),
    (FieldName("a"), FieldName("b"), FieldName("c")),
    (FieldName("é"),),
    (FieldName("a"), Index(0)),
)


def spaced(pieces: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda before, piece, after: before + piece + after, SPACES, pieces, SPACES)


def quoted(pieces: tuple[bytes, ...], most: int) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces), max_size=most).map(lambda found: b'"' + b"".join(found) + b'"')


names = spaced(
    st.sampled_from(
        [*([b'"a"', b'"b"', b'"c"'] * 4), b'"A"', b'""', '"é"'.encode(), b'"\\u0061"', b'"\\u00e9"', b'"other"']
    )
)
scalars = st.one_of(
    st.sampled_from([b"null", b"true", b"false", b"{}", b"[]"]),
    st.sampled_from(NUMBERS).map(str.encode),
    st.integers(-(2**64), 2**64).map(lambda number: str(number).encode()),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: repr(number).encode()),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6).map(
        lambda number: str(number).encode()
    ),
    quoted(PIECES, 4),
)
wrong = st.sampled_from(WRONG).map(str.encode) | quoted(PIECES + WRONG_PIECES, 3)


def objects(values: st.SearchStrategy[bytes], least: int = 0) -> st.SearchStrategy[bytes]:
    members = st.builds(lambda name, value: name + b":" + value, names, spaced(values))
    return st.lists(members, min_size=least, max_size=4).map(lambda found: b"{" + b",".join(found) + b"}")


def lists(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(spaced(values), min_size=1, max_size=3).map(lambda found: b"[" + b",".join(found) + b"]")


def nested(leaves: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.recursive(leaves, lambda inner: objects(inner) | lists(inner), max_leaves=5)


usual_lines = spaced(objects(nested(scalars), 1))
odd_lines = st.one_of(
    spaced(objects(nested(scalars | wrong))),
    st.sampled_from(
        [
            *(
                b"",
                b" ",
                b"\r",
                b"\x0b",
                b"[1]",
                b"7",
                b"null",
                b'"a"',
                b"{",
                b"}",
                b"{}{}",
                b'{"a":1}x',
                b'{"a":',
                b'{"a":1',
            ),
            *(b'\xef\xbb\xbf{"a":1}', b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", b'{"a":"x', b"\0", b'{"a":1}\0'),
        ]
    ),
    st.binary(max_size=12),
)
blocks = st.builds(
    lambda usual, odd, at, end: b"\n".join([*usual[:at], *odd, *usual[at:]]) + end,
    st.lists(usual_lines, min_size=1, max_size=6),
    st.lists(odd_lines, max_size=1),
    st.integers(0, 6),
    st.sampled_from([b"", b"\n", b"\r\n", b"\n\n"]),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.sampled_from(["x", "1"])),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=4,
)
samples = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), values, min_size=1), min_size=1, max_size=3)
views = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([None, *ReadAs])), max_size=4)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> JsonLibrary:
    return JsonLibrary(compiled(JSON_LINES, tmp_path_factory.mktemp("json")))


def request_columns(columns: ValueColumns, found: list[tuple[tuple[Step, ...], ReadAs | None]]) -> list[str]:
    fields = [(columns.field(path), view) for path, view in found]
    names = [columns.presence(field) if view is None else columns.column(field, view).name for field, view in fields]
    return list(dict.fromkeys(names))


def outcome(library: JsonLibrary | None, columns: ValueColumns, block: bytes, wanted: list[str]) -> object:
    reader = LineReader((), library)
    reader.columns = columns
    try:
        batch = reader.read(block, wanted)
    except SelectError as refused:
        return refused.code, str(refused)
    batch.validate(full=True)
    # As text, because negative zero equals zero.
    return batch.schema, len(batch), repr(batch.to_pydict())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(block=blocks, sample=samples, found=views, whole=st.booleans())
@example(
    block=b'{"a":1}\n' * 9 + b'{"a":1.5}\n', sample=[{"a": 1}], found=[((FieldName("a"),), ReadAs.NUMBER)], whole=False
)
@example(
    block=b'{"a":1}\n' * 9 + b'{"a":1.50}\n', sample=[{"a": 1}], found=[((FieldName("a"),), ReadAs.TEXT)], whole=True
)
@example(
    block=b'{"a":1}\n' * 9 + b'{"\\u0061":2}', sample=[{"a": 1}], found=[((FieldName("a"),), ReadAs.ANY)], whole=False
)
def test_scanner_equals_the_general_reader(
    library: JsonLibrary,
    block: bytes,
    sample: list[object],
    found: list[tuple[tuple[Step, ...], ReadAs | None]],
    whole: bool,
) -> None:
    columns = ValueColumns(sample)
    wanted = request_columns(columns, found) + ([RECORD_COLUMN] if whole else [])
    ends = [number + 1 for number, byte in enumerate(block) if byte == ord("\n")]
    parts = {block, *(block[:end] for end in ends), *(block[end:] for end in ends)}
    for part in sorted(parts):
        assert outcome(library, columns, part, wanted) == outcome(None, columns, part, wanted)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1
    )
)
def test_numbers_are_rounded_and_formatted_as_in_python(library: JsonLibrary, numbers: list[float]) -> None:
    block = b"".join(f'{{"a":{number!r}}}\n'.encode() for number in numbers)
    columns = ValueColumns([{"a": 0.5}])
    wanted = request_columns(columns, [((FieldName("a"),), view) for view in ReadAs])
    assert outcome(library, columns, block, wanted) == outcome(None, columns, block, wanted)


def test_plain_records_need_no_fallback(library: JsonLibrary) -> None:
    columns = ValueColumns([{"a": 1, "b": "x", "c": {"d": 0.5}}])
    paths: list[tuple[Step, ...]] = [(FieldName("a"),), (FieldName("b"),), (FieldName("c"), FieldName("d"))]
    wanted = request_columns(columns, [(path, view) for path in paths for view in (None, ReadAs.ANY, ReadAs.TEXT)])
    scanner = line_scanner(library, columns, [*wanted, RECORD_COLUMN])
    assert scanner is not None
    scanned = scanner.read(b'{"a": 1, "b": "x\\"", "c": {"d": 2.25}}\r\n\n{"b":null,"a":true}')
    assert scanned is not None
    assert not scanned.fallback
    assert scanned.batch.to_pydict() == {
        "p0": [True, True],
        "a0": ["1", "true"],
        "t0": ["1", "true"],
        "p1": [True, True],
        "a1": ['"x\\""', None],
        "t1": ['x"', None],
        "p2": [True, False],
        "a2": ["2.25", None],
        "t2": ["2.25", None],
        "r": ['{"a": 1, "b": "x\\"", "c": {"d": 2.25}}', '{"b":null,"a":true}'],
    }


def test_only_unusual_records_need_the_fallback(library: JsonLibrary) -> None:
    columns = ValueColumns([{"a": 1}])
    wanted = request_columns(columns, [((FieldName("a"),), ReadAs.TEXT)])
    scanner = line_scanner(library, columns, wanted)
    assert scanner is not None
    scanned = scanner.read(b'{"a":1}\n' * 5 + b'  {"a":[1, 2]}\n' + b'{"a":2}\n')
    assert scanned is not None
    assert (scanned.fallback, scanned.lines) == ([5], b'{"a":[1, 2]}')


@pytest.mark.parametrize("line", [b'{"a":01}', b'{"z":"\xff"}', b'{"z":1e400}', b"[1]", b'{"a":1', b'{"z":"\\ud800"}'])
def test_possibly_invalid_block_is_rejected_as_a_whole(library: JsonLibrary, line: bytes) -> None:
    columns = ValueColumns([{"a": 1}])
    scanner = line_scanner(library, columns, request_columns(columns, [((FieldName("a"),), ReadAs.TEXT)]))
    assert scanner is not None
    assert scanner.read(b'{"a":1}\n' * 20 + line + b"\n") is None


def test_without_the_library_the_general_reader_is_used(tmp_path: Path) -> None:
    assert load_library(tmp_path / "missing.so") is None
    another = ctypes.util.find_library("c")
    assert another is not None
    assert load_library(Path(another)) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 20_261_116])
def test_scanner_stays_within_its_buffers(tmp_path: Path, seed: int) -> None:
    # The data must include records that are scanned, or the test proves nothing.
    assert fuzzed(FUZZ, tmp_path, rounds=100_000, seed=seed) > 10_000
