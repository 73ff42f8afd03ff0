"""The queries: their objects, and their SQL for each system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CSV: Final = {"CSV": {"FileHeaderInfo": "USE"}}
CSV_OUT: Final[dict[str, Any]] = {"CSV": {}}
SMALL: Final = "small/"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One query."""

    name: str
    title: str
    object: str
    """The file name and key; with a trailing `/`, a folder of objects that are all queried."""
    read: dict[str, Any]
    """The input serialization."""
    ours: str
    theirs: str
    """The SQL for DuckDB, with `{}` for the file."""
    goals: tuple[float | None, float | None] = (None, None)
    """Minimum speed relative to MinIO and to DuckDB."""
    as_one: bool = False
    """Whether Lakebed queries all objects of a folder in one request; MinIO requires one for each."""


SCENARIOS: Final = (
    Scenario(
        "csv-count",
        "CSV, count with a filter",
        "rows.csv",
        CSV,
        "SELECT COUNT(*) FROM S3Object s WHERE CAST(s.amount AS INT) > 500000",
        "SELECT COUNT(*) FROM read_csv('{}', all_varchar=true, header=true) s WHERE CAST(s.amount AS INT) > 500000",
        (3.0, 0.5),
    ),
    Scenario(
        "json-project",
        "JSON lines, two fields of each",
        "rows.json",
        {"JSON": {"Type": "LINES"}},
        "SELECT s.id, s.word FROM S3Object s",
        "SELECT s.id, s.word FROM read_json('{}', format='newline_delimited') s",
        (3.0, 0.5),
    ),
    Scenario(
        "parquet-aggregate",
        "Parquet, count, sum, min and max",
        "rows.parquet",
        {"Parquet": {}},
        "SELECT COUNT(*), SUM(s.amount), MIN(s.price), MAX(s.price) FROM S3Object s",
        "SELECT COUNT(*), SUM(s.amount), MIN(s.price), MAX(s.price) FROM read_parquet('{}') s",
        (3.0, 0.5),
    ),
    Scenario(
        "small-objects",
        "1,000 small objects of CSV, rows with a filter",
        SMALL,
        CSV,
        "SELECT s.id, s.word FROM S3Object s WHERE CAST(s.amount AS INT) > 900000",
        "SELECT s.id, s.word FROM read_csv('{}/*.csv', all_varchar=true, header=true) s "
        "WHERE CAST(s.amount AS INT) > 900000",
        (3.0, None),
        as_one=True,
    ),
    Scenario(
        "small-objects-each",
        "the same, one request per object",
        SMALL,
        CSV,
        "SELECT s.id, s.word FROM S3Object s WHERE CAST(s.amount AS INT) > 900000",
        "SELECT s.id, s.word FROM read_csv('{}/*.csv', all_varchar=true, header=true) s "
        "WHERE CAST(s.amount AS INT) > 900000",
    ),
    Scenario(
        "csv-few",
        "CSV, one row in a thousand",
        "rows.csv",
        CSV,
        "SELECT s.id, s.word FROM S3Object s WHERE CAST(s.amount AS INT) < 1000",
        "SELECT s.id, s.word FROM read_csv('{}', all_varchar=true, header=true) s WHERE CAST(s.amount AS INT) < 1000",
    ),
    Scenario(
        "csv-gzip",
        "CSV in gzip, count with a filter",
        "rows.csv.gz",
        {**CSV, "CompressionType": "GZIP"},
        "SELECT COUNT(*) FROM S3Object s WHERE CAST(s.amount AS INT) > 500000",
        "SELECT COUNT(*) FROM read_csv('{}', all_varchar=true, header=true) s WHERE CAST(s.amount AS INT) > 500000",
    ),
    Scenario(
        "json-count",
        "JSON lines, count with a filter",
        "rows.json",
        {"JSON": {"Type": "LINES"}},
        "SELECT COUNT(*) FROM S3Object s WHERE s.amount > 500000",
        "SELECT COUNT(*) FROM read_json('{}', format='newline_delimited') s WHERE s.amount > 500000",
    ),
)
