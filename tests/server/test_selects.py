"""Workers run selects without NumPy and pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

_QUERIES: Final = """
import sys
from lakebed.server.selects import block_numpy
block_numpy()
block_numpy()

import io, pyarrow as pa
from pyarrow import parquet
from lakebed.select.model import ArrowOutput, CsvInput, CsvOutput, JsonInput, JsonOutput, ParquetInput
from tests.select.running import select

stored = io.BytesIO()
parquet.write_table(pa.table({"_1": [1, None, 3], "t": ["x", "y", None]}), stored)
sql = "SELECT _1 FROM S3Object WHERE _1 = 1"
assert select(sql, b"1,2\\n3,4\\n", CsvInput(), CsvOutput()) == "1\\n"
assert select(sql, b'{"_1": 1}\\n', JsonInput(), JsonOutput()) == '{"_1":1}\\n'
assert select(sql, stored.getvalue(), ParquetInput(), CsvOutput()) == "1\\n"
assert select("SELECT AVG(_1), MAX(t) FROM S3Object", stored.getvalue(), ParquetInput()) == "2,y\\n"
assert select("SELECT EXTRACT(YEAR FROM TO_TIMESTAMP(_1)) FROM S3Object", b"2017T\\n") == "2017\\n"

for module in ("numpy", "pandas"):
    assert module not in sys.modules, module
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        assert error.name == module
    else:
        raise AssertionError(module)
"""


def test_queries_are_answered_without_numpy_and_pandas() -> None:
    # In a separate process: this one may have imported them.
    project = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", _QUERIES], cwd=project, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
