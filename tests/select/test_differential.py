"""Five hundred generated queries, compared with DuckDB and MinIO, over the same rows as CSV, JSON and Parquet."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, EventStreamError
from pyarrow import csv, parquet

from lakebed.select.model import CsvInput, HeaderUse, Input, JsonInput, JsonKind, ParquetInput
from tests.fixtures.minio import MinioServer

from .running import objects

SEED = 20261115
QUERIES = 500
ROWS = 700

WORDS = ["", "a", "Ab", "abc", "b%", "c_d", "été", "it's", 'q"q', "x,y", "zz top", "NULL", "0", "12"]


def table(chance: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "n": chance.randint(-1000, 1000),
            "f": chance.choice([chance.uniform(-50, 50), float(chance.randint(-5, 5))]),
            "t": chance.choice(WORDS),
            "u": chance.choice(WORDS),
            "m": chance.choice([None, chance.randint(0, 9)]),
        }
        for number in range(ROWS)
    ]


@dataclass(frozen=True)
class Query:
    """A query in both dialects."""

    ours: str
    theirs: str
    in_order: bool


class Generator:
    """Generates expressions of each kind as text in both dialects; a function renders fields."""

    def __init__(self, chance: random.Random, field: Callable[[str], tuple[str, str]]) -> None:
        self._chance = chance
        self._field = field

    def query(self) -> Query:
        chance = self._chance
        where = ("", "")
        if chance.random() < 0.8:
            condition = self.boolean(3)
            where = (f" WHERE {condition[0]}", f" WHERE {condition[1]}")
        if chance.random() < 0.35:
            listed = [self.aggregate() for _ in range(chance.randint(1, 3))]
            ours, theirs = (", ".join(f"{item[side]} AS c{at}" for at, item in enumerate(listed)) for side in (0, 1))
            return Query(f"SELECT {ours} FROM S3Object s{where[0]}", f"SELECT {theirs} FROM t s{where[1]}", True)
        listed = [self._field("id"), *(self.anything() for _ in range(chance.randint(1, 3)))]
        ours, theirs = (", ".join(f"{item[side]} AS c{at}" for at, item in enumerate(listed)) for side in (0, 1))
        limit = f" LIMIT {chance.randint(0, 40)}" if chance.random() < 0.2 else ""
        return Query(
            f"SELECT {ours} FROM S3Object s{where[0]}{limit}",
            f"SELECT {theirs} FROM t s{where[1]} ORDER BY CAST({self._field('id')[1]} AS BIGINT){limit}",
            True,
        )

    def anything(self) -> tuple[str, str]:
        return self._chance.choice([self.number, self.text, self.boolean])(2)

    def aggregate(self) -> tuple[str, str]:
        name = self._chance.choice(["COUNT", "SUM", "MIN", "MAX", "AVG"])
        if name == "COUNT" and self._chance.random() < 0.5:
            return "COUNT(*)", "COUNT(*)"
        ours, theirs = self.number(1)
        return f"{name}({ours})", f"{name}({theirs})"

    def number(self, depth: int) -> tuple[str, str]:
        chance = self._chance
        if depth == 0 or chance.random() < 0.4:
            if chance.random() < 0.3:
                literal = str(chance.choice([0, 1, 7, 100, 2.5, 0.25]))
                return literal, f"CAST({literal} AS DOUBLE)" if "." in literal else f"CAST({literal} AS BIGINT)"
            name = chance.choice(["id", "n", "f", "m"])
            kind = ("FLOAT", "DOUBLE") if name == "f" else ("INT", "BIGINT")
            ours, theirs = self._field(name)
            return f"CAST({ours} AS {kind[0]})", f"CAST({theirs} AS {kind[1]})"
        shape = chance.randrange(4)
        if shape == 0:
            left, right = self.number(depth - 1), self.number(depth - 1)
            operator = chance.choice("+-*")
            return f"({left[0]} {operator} {right[0]})", f"({left[1]} {operator} {right[1]})"
        if shape == 1:
            inner = self.number(depth - 1)
            return f"(-{inner[0]})", f"(-{inner[1]})"
        if shape == 2:
            inner = self.text(depth - 1)
            return f"CHAR_LENGTH({inner[0]})", f"CAST(length({inner[1]}) AS BIGINT)"
        condition, yes, no = self.boolean(depth - 1), self.number(depth - 1), self.number(depth - 1)
        return tuple(  # type: ignore[return-value]  # two texts
            f"CASE WHEN {condition[side]} THEN {yes[side]} ELSE {no[side]} END" for side in (0, 1)
        )

    def text(self, depth: int) -> tuple[str, str]:
        chance = self._chance
        if depth == 0 or chance.random() < 0.5:
            if chance.random() < 0.3:
                word = chance.choice(WORDS).replace("'", "''")
                return f"'{word}'", f"'{word}'"
            return self._field(chance.choice("tu"))
        inner = self.text(depth - 1)
        shape = chance.randrange(5)
        if shape == 0:
            return f"LOWER({inner[0]})", f"lower({inner[1]})"
        if shape == 1:
            return f"UPPER({inner[0]})", f"upper({inner[1]})"
        if shape == 2:
            start, length = chance.randint(1, 4), chance.randint(0, 3)
            return f"SUBSTRING({inner[0]}, {start}, {length})", f"substring({inner[1]}, {start}, {length})"
        if shape == 3:
            other = self.text(depth - 1)
            return f"({inner[0]} || {other[0]})", f"({inner[1]} || {other[1]})"
        other = self.text(depth - 1)
        return f"COALESCE(NULLIF({inner[0]}, 'a'), {other[0]})", f"COALESCE(NULLIF({inner[1]}, 'a'), {other[1]})"

    def boolean(self, depth: int) -> tuple[str, str]:
        chance = self._chance
        shape = chance.randrange(3 if depth == 0 else 8)
        if shape == 0:
            left, right = self.number(max(0, depth - 1)), self.number(max(0, depth - 1))
            operator = chance.choice(["=", "<>", "<", "<=", ">", ">=", "!="])
            return f"({left[0]} {operator} {right[0]})", f"({left[1]} {operator} {right[1]})"
        if shape == 1:
            left, right = self.text(max(0, depth - 1)), self.text(max(0, depth - 1))
            operator = chance.choice(["=", "<>", "<", ">="])
            return f"({left[0]} {operator} {right[0]})", f"({left[1]} {operator} {right[1]})"
        if shape == 2:
            value = self.text(max(0, depth - 1))
            pattern = chance.choice(["a%", "%b%", "_b%", "%", "", "b!%%", "%''%"])
            escape = " ESCAPE '!'" if "!" in pattern else ""
            negated = chance.choice(["", "NOT "])
            return f"({value[0]} {negated}LIKE '{pattern}'{escape})", f"({value[1]} {negated}LIKE '{pattern}'{escape})"
        if shape == 3:
            value = self.number(depth - 1)
            low, high = sorted(chance.randint(-500, 500) for _ in range(2))
            return f"({value[0]} BETWEEN {low} AND {high})", f"({value[1]} BETWEEN {low} AND {high})"
        if shape == 4:
            value = self.text(depth - 1)
            words = ", ".join("'" + word.replace("'", "''") + "'" for word in chance.sample(WORDS, 3))
            negated = chance.choice(["", "NOT "])
            return f"({value[0]} {negated}IN ({words}))", f"({value[1]} {negated}IN ({words}))"
        if shape == 5:
            value = self.number(depth - 1)
            negated = chance.choice(["", "NOT "])
            return f"({value[0]} IS {negated}NULL)", f"({value[1]} IS {negated}NULL)"
        if shape == 6:
            inner = self.boolean(depth - 1)
            return f"(NOT {inner[0]})", f"(NOT {inner[1]})"
        left, right = self.boolean(depth - 1), self.boolean(depth - 1)
        word = chance.choice(["AND", "OR"])
        return f"({left[0]} {word} {right[0]})", f"({left[1]} {word} {right[1]})"


def csv_field(name: str) -> tuple[str, str]:
    # An empty CSV field is empty text here, so the numeric column with nulls is excluded from both.
    return ("NULLIF(s.m, '')", "NULLIF(s.m, '')") if name == "m" else (f"s.{name}", f"s.{name}")


def plain_field(name: str) -> tuple[str, str]:
    return f"s.{name}", f"s.{name}"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    records = table(random.Random(SEED))
    columns = pa.Table.from_pylist(records)
    csv.write_csv(columns, folder / "t.csv", csv.WriteOptions(quoting_style="needed"))
    parquet.write_table(columns, folder / "t.parquet", row_group_size=100)
    (folder / "t.json").write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return folder


FORMATS: dict[str, tuple[Input, str, Callable[[str], tuple[str, str]]]] = {
    "csv": (
        CsvInput(header=HeaderUse.USE, comments=""),
        "read_csv('{}', all_varchar=true, header=true, quote='\"', nullstr='no such value')",
        csv_field,
    ),
    "json": (JsonInput(JsonKind.LINES), "read_json('{}', format='newline_delimited')", plain_field),
    "parquet": (ParquetInput(), "read_parquet('{}')", plain_field),
}


def equal_values(ours: object, theirs: object) -> bool:
    if isinstance(ours, int | float) and isinstance(theirs, int | float) and not isinstance(ours, bool):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_results_equal_those_of_duckdb(files: Path, kind: str) -> None:
    given, source, field = FORMATS[kind]
    path = files / f"t.{kind}"
    data = path.read_bytes()
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT * FROM {source.format(path)}")
    chance = random.Random(f"{SEED}-{kind}")
    answered = 0
    for _ in range(-(-QUERIES // len(FORMATS))):
        query = Generator(chance, field).query()
        theirs = [list(row) for row in connection.execute(query.theirs).fetchall()]
        ours = [list(record.values()) for record in objects(query.ours, data, given)]
        assert len(ours) == len(theirs), query.ours
        for mine, other in zip(ours, theirs, strict=True):
            assert all(equal_values(a, b) for a, b in zip(mine, other, strict=True)), (query.ours, mine, other)
        answered += bool(theirs)
    # Most queries must succeed, or the comparison would be empty.
    assert answered > QUERIES // len(FORMATS) // 2
    connection.close()


MINIO_INPUTS: dict[str, dict[str, Any]] = {
    "csv": {"CSV": {"FileHeaderInfo": "USE"}},
    "json": {"JSON": {"Type": "LINES"}},
}
MINIO_IS_WRONG = re.compile("ESCAPE|NULLIF")
"""MinIO ignores the first; COALESCE of the second must be excluded too. DuckDB agrees with Lakebed."""


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("kind", MINIO_INPUTS)
def test_results_equal_those_of_minio_if_supported(files: Path, minio: MinioServer, kind: str) -> None:
    given, _, field = FORMATS[kind]
    data = (files / f"t.{kind}").read_bytes()
    chance = random.Random(f"{SEED}-{kind}")
    bucket = minio.make_bucket()
    compared = 0
    with minio.client() as client:
        client.put_object(Bucket=bucket, Key=kind, Body=data)
        for _ in range(-(-QUERIES // len(FORMATS))):
            query = Generator(chance, field).query()
            theirs = None if MINIO_IS_WRONG.search(query.ours) else minio_answer(client, bucket, kind, query.ours)
            if theirs is None:
                continue
            ours = objects(query.ours, data, given)
            assert len(ours) == len(theirs), query.ours
            for mine, other in zip(ours, theirs, strict=True):
                for name, value in mine.items():
                    # A sum of nothing is null; MinIO returns 0.
                    is_sum_of_none = value is None and other.get(name) == 0 and "SUM(" in query.ours
                    assert equal_values(value, other.get(name)) or is_sum_of_none, (query.ours, mine, other)
            compared += 1
    assert compared > 30


def minio_answer(client: Any, bucket: str, key: str, expression: str) -> list[dict[str, Any]] | None:
    """Any: botocore's clients are untyped. None if MinIO does not support the query."""
    written = b""
    try:
        answer = client.select_object_content(
            Bucket=bucket,
            Key=key,
            Expression=expression,
            ExpressionType="SQL",
            InputSerialization=MINIO_INPUTS[key],
            OutputSerialization={"JSON": {}},
        )
        for event in answer["Payload"]:
            written += event.get("Records", {}).get("Payload", b"")
    except (ClientError, EventStreamError):
        return None
    return [json.loads(line) for line in written.decode().splitlines()]
