"""Extensions of S3's dialect: DISTINCT, HAVING and window functions."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lakebed.core.errors import SelectError

from .running import HEADED, LINES, rows

CSV = b"k,n,t\n" + b"".join(b"%c,%d,%s\n" % (97 + n % 3, n * 7 % 11, b"" if n % 4 else b"x") for n in range(40))
JSON = b"".join(b'{"k":"%c","n":%d}\n' % (97 + n % 3, n * 7 % 11) for n in range(40)) + b'{"k":null,"n":1.0}\n'

QUERIES = [
    "SELECT DISTINCT s.k FROM {} s",
    "SELECT DISTINCT s.k, CAST(s.n AS INT) AS m FROM {} s ORDER BY s.k, m DESC",
    "SELECT DISTINCT s.k FROM {} s WHERE CAST(s.n AS INT) > 5 ORDER BY 1 LIMIT 2",
    "SELECT COUNT(DISTINCT s.k), SUM(DISTINCT CAST(s.n AS INT)) FROM {} s",
    "SELECT s.k, COUNT(*) FROM {} s GROUP BY s.k HAVING COUNT(*) > 13",
    "SELECT s.k, SUM(CAST(s.n AS INT)) AS total FROM {} s GROUP BY s.k HAVING MAX(CAST(s.n AS INT)) > 9 ORDER BY total",
    "SELECT COUNT(*) FROM {} s HAVING COUNT(*) > 100",
    "SELECT s.k, ROW_NUMBER() OVER (PARTITION BY s.k ORDER BY CAST(s.n AS INT), s.n) FROM {} s",
    "SELECT s.n, RANK() OVER (ORDER BY CAST(s.n AS INT) DESC), DENSE_RANK() OVER (ORDER BY CAST(s.n AS INT)) FROM {} s",
    "SELECT s.k, SUM(CAST(s.n AS INT)) OVER (PARTITION BY s.k), COUNT(*) OVER () FROM {} s",
    "SELECT s.n, MIN(CAST(s.n AS INT)) OVER (ORDER BY CAST(s.n AS INT) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
    "FROM {} s",
    "SELECT s.n, NTILE(4) OVER (ORDER BY CAST(s.n AS INT), s.k) FROM {} s",
    "SELECT CAST(s.n AS INT), LAG(CAST(s.n AS INT), 1, -1) OVER (ORDER BY CAST(s.n AS INT), s.k) FROM {} s",
    "SELECT s.k, FIRST_VALUE(s.k) OVER (ORDER BY s.k) FROM {} s WHERE s.k IS NOT NULL",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_results_equal_those_of_duckdb(query: str, form: str, tmp_path: Path) -> None:
    data, read = (CSV, HEADED) if form == "csv" else (JSON, LINES)
    file = tmp_path / f"data.{form}"
    file.write_bytes(data)
    source = (
        f"read_csv('{file}', all_varchar=true, header=true, nullstr='<none>')"
        if form == "csv"
        else f"(SELECT k, CAST(n AS INT) AS n FROM read_json('{file}', format='newline_delimited'))"
    )
    ours = [line.split(",") for line in rows(query.format("S3Object"), data, read)]
    with duckdb.connect(config={"threads": 1}) as oracle:
        oracle.execute("SET default_null_order = 'nulls_first'")
        found = oracle.execute(query.format(source)).fetchall()
    theirs = [["" if value is None else str(value) for value in row] for row in found]
    # Records keep the text 1.0.
    ours = [["1" if value == "1.0" else value for value in row] for row in ours]
    if "ORDER BY" not in query.rpartition(")")[2]:
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs


def test_distinct_of_all_columns() -> None:
    data = b"a,1\nb,2\na,1\n"
    assert rows("SELECT DISTINCT * FROM S3Object s ORDER BY s._1 DESC", data) == ["b,2", "a,1"]


def test_windows_without_order_use_the_input_order() -> None:
    assert rows("SELECT _1, ROW_NUMBER() OVER () FROM S3Object", b"c\na\nb\n") == ["c,1", "a,2", "b,3"]


def test_distinct_can_only_be_sorted_by_selected_columns() -> None:
    with pytest.raises(SelectError) as caught:
        rows("SELECT DISTINCT s._1 FROM S3Object s ORDER BY s._2", b"a,1\n")
    assert caught.value.code == "UnsupportedSqlStructure"
