from __future__ import annotations

import datetime
import decimal
import io

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from lakebed.core.errors import SelectError
from lakebed.select.formats.parquet import batch_rows
from lakebed.select.model import ArrowInput, ArrowOutput, Compression, ParquetInput, ParquetOutput

from .running import LIMITS, answer, objects, request, rows, select

PARQUET = ParquetInput()
TABLE = pa.table(
    {
        "id": pa.array(range(1000), pa.int32()),
        "name": pa.array([f"n{number % 10}" for number in range(1000)]).dictionary_encode(),
        "price": pa.array([decimal.Decimal(number) / 4 for number in range(1000)], pa.decimal128(10, 2)),
        "at": pa.array(
            [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=n) for n in range(1000)], pa.timestamp("us")
        ),
        "day": pa.array([datetime.date(2020, 1, 1 + number % 28) for number in range(1000)]),
        "maybe": pa.array([None if number % 2 else number / 2 for number in range(1000)]),
        "in": pa.array([{"x": number, "l": [number, number + 1]} for number in range(1000)]),
    }
)


def stored(table: pa.Table = TABLE, **options: object) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, **{"row_group_size": 100, **options})
    return sink.getvalue()


DATA = stored()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT COUNT(*) FROM S3Object", ["1000"]),
        ("SELECT id, name FROM S3Object WHERE id < 2", ["0,n0", "1,n1"]),
        ("SELECT _1 FROM S3Object LIMIT 1", ["0"]),
        ("SELECT SUM(id), AVG(price), MAX(maybe) FROM S3Object", ["499500,124.875,499"]),
        ("SELECT price FROM S3Object WHERE price = 0.25", ["0.25"]),
        ("SELECT id FROM S3Object WHERE maybe IS NULL AND id < 4", ["1", "3"]),
        ("SELECT id FROM S3Object WHERE id NOT IN (0, 1) AND id < 4", ["2", "3"]),
        ("SELECT at, day FROM S3Object LIMIT 1", ["2020-01-01T00:00:00.000000Z,2020-01-01T"]),
        ("SELECT id FROM S3Object WHERE at < `2020-01-01T02:00Z`", ["0", "1"]),
        ("SELECT COUNT(*) FROM S3Object WHERE day = `2020-01-01T`", ["36"]),
        ('SELECT s."in".x FROM S3Object s WHERE s."in".l[1] = 3', ["2"]),
        ("SELECT name, COUNT(*) FROM S3Object GROUP BY name ORDER BY name LIMIT 2", ["n0,100", "n1,100"]),
        ("SELECT id FROM S3Object WHERE name = 'n3' AND id >= 990", ["993"]),
    ],
)
def test_queries(expression: str, expected: list[str]) -> None:
    assert rows(expression, DATA, PARQUET) == expected


def test_values_are_formatted_by_type() -> None:
    assert objects("SELECT * FROM S3Object LIMIT 1", DATA, PARQUET) == [
        {
            "id": 0,
            "name": "n0",
            "price": 0,
            "at": "2020-01-01T00:00:00.000000Z",
            "day": "2020-01-01T",
            "maybe": 0,
            "in": {"x": 0, "l": [0, 1]},
        }
    ]


async def test_row_groups_that_cannot_match_are_not_read() -> None:
    _, of_all = await answer(request("SELECT name FROM S3Object", PARQUET), DATA)
    found, of_few = await answer(request("SELECT name FROM S3Object WHERE id = 5", PARQUET), DATA)
    assert found == b"n5\n"
    assert of_few.scanned < of_all.scanned


async def test_count_reads_no_columns() -> None:
    found, of_count = await answer(request("SELECT COUNT(*) FROM S3Object", PARQUET), DATA)
    _, of_none = await answer(request("SELECT name FROM S3Object LIMIT 0", PARQUET), DATA)
    assert found == b"1000\n"
    assert of_count.scanned == of_none.scanned


def test_counted_rows_are_returned_in_batches() -> None:
    many = stored(pa.table({"a": pa.nulls(300_000, pa.int32())}), row_group_size=300_000)
    assert rows("SELECT COUNT(*) FROM S3Object", many, PARQUET) == ["300000"]
    assert len(rows("SELECT 'x' FROM S3Object", many, PARQUET)) == 300_000
    assert rows("SELECT 'x' FROM S3Object LIMIT 150", DATA, PARQUET) == ["x"] * 150
    assert rows("SELECT COUNT(*) FROM S3Object", stored(TABLE.slice(0, 0)), PARQUET) == ["0"]


def test_batches_are_large_if_values_are_small() -> None:
    def largest_batch(table: pa.Table) -> int:
        group = parquet.ParquetFile(io.BytesIO(stored(table))).metadata.row_group(0)
        return batch_rows([group.column(number) for number in range(group.num_columns)])

    number, text = pa.array([1]), pa.array(["t"])
    assert largest_batch(pa.table({"a": number})) == 128 * 1024
    assert largest_batch(pa.table({"a": number, "b": text})) == 16 * 1024
    assert largest_batch(pa.table({"a": [[1]]})) == 16 * 1024
    assert largest_batch(pa.table({f"c{index}": number for index in range(8)})) == 64 * 1024
    assert largest_batch(pa.table({f"c{index}": number for index in range(200)})) == 16 * 1024


def test_scan_ranges_cover_every_row_group_once() -> None:
    found = [
        line
        for start in range(0, len(DATA), 3000)
        for line in rows("SELECT id FROM S3Object", DATA, PARQUET, scan=(start, start + 2999))
    ]
    assert found == [str(number) for number in range(1000)]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("SELECT nope FROM S3Object", "EvaluatorBindingDoesNotExist"),
        ("SELECT _99 FROM S3Object", "InvalidColumnIndex"),
        ('SELECT s."in".nope FROM S3Object s', "InvalidKeyPath"),
    ],
)
def test_errors_have_their_s3_code(expression: str, code: str) -> None:
    with pytest.raises(SelectError) as raised:
        select(expression, DATA, PARQUET)
    assert raised.value.code == code


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"no parquet at all", DATA[:-100], DATA[:2000] + b"x" * 2000 + DATA[4000:]]
)
def test_invalid_parquet_is_rejected(data: bytes) -> None:
    with pytest.raises(SelectError) as raised:
        select("SELECT * FROM S3Object", data, PARQUET)
    assert raised.value.code in ("ParquetParsingError", "ParquetUnsupportedCompressionCodec")


def test_parquet_must_not_be_compressed_as_a_whole() -> None:
    with pytest.raises(SelectError) as raised:
        select("SELECT * FROM S3Object", DATA, PARQUET, compression=Compression.GZIP)
    assert raised.value.code == "InvalidCompressionFormat"


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd"])
def test_columns_may_be_compressed(codec: str) -> None:
    data = stored(TABLE.select(["id"]), compression=codec)
    assert rows("SELECT SUM(id) FROM S3Object", data, PARQUET) == ["499500"]


async def test_results_can_be_columnar() -> None:
    expression = "SELECT id, name FROM S3Object WHERE id < 3"
    found, _ = await answer(request(expression, PARQUET, ParquetOutput()), DATA, LIMITS)
    assert parquet.read_table(io.BytesIO(found)).to_pydict() == {"id": [0, 1, 2], "name": ["n0", "n1", "n2"]}
    found, _ = await answer(request(expression, PARQUET, ArrowOutput()), DATA, LIMITS)
    assert ipc.open_stream(found).read_all().to_pydict() == {"id": [0, 1, 2], "name": ["n0", "n1", "n2"]}


@pytest.mark.parametrize("as_file", [True, False])
def test_arrow_is_read(as_file: bool) -> None:
    sink = io.BytesIO()
    with (ipc.new_file if as_file else ipc.new_stream)(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, 300)
    assert rows("SELECT COUNT(*), SUM(id) FROM S3Object WHERE id < 500", sink.getvalue(), ArrowInput()) == [
        "500,124750"
    ]
    with pytest.raises(SelectError) as raised:
        select("SELECT * FROM S3Object", b"no arrow", ArrowInput())
    assert raised.value.code == "UnrecognizedFormatException"
