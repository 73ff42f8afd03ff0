from __future__ import annotations

import fnmatch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.conform.evidence import SCHEMA, Document, packaged_evidence, parse_evidence, selects
from lakebed.core.errors import Corrupted

from .records import NOTHING, document, evidence, record


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("tests/a/test_b.py", True),
        ("tests/a/test_b.py::test_c", True),
        ("tests/a/*.py", True),
        ("tests/a/test_*.py::*_c", True),
        ("tests/a/test_b.py::test_d", False),
        ("tests/a", False),
        ("tests/a/test_bb.py", False),
        ("", False),
    ],
)
def test_selector_means_a_file_or_a_test(selector: str, selected: bool) -> None:
    assert selects(selector, "tests/a/test_b.py::test_c") is selected


def test_document_is_read_as_it_was_written() -> None:
    made = document(record("tests/a.py::test_a"), record("tests/b.py::test_b", "failed", client="duckdb"))
    assert parse_evidence(msgspec.json.encode(made)).document == made


@given(st.binary())
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupted):
        parse_evidence(data)


@pytest.mark.parametrize("change", [{"schema": "other"}, {"schema_version": 2}])
def test_other_schemas_are_refused(change: dict[str, object]) -> None:
    fields = {**msgspec.to_builtins(document()), **change}
    with pytest.raises(Corrupted, match="schema"):
        parse_evidence(msgspec.json.encode(fields))


def test_status_is_one_of_three() -> None:
    fields = msgspec.to_builtins(document(record("tests/a.py::test_a")))
    fields["records"][0]["status"] = "believed"
    with pytest.raises(Corrupted):
        parse_evidence(msgspec.json.encode(fields))


def test_records_are_found_by_client_and_selector() -> None:
    first, second = record("tests/a.py::test_a", client="spark"), record("tests/b.py::test_b")
    known = evidence(first, second)
    assert known.of_client("spark") == [first]
    assert known.matching(["tests/b.py", "tests/c.py"]) == [second]
    assert known.described()["tests"] == 2
    assert NOTHING.described() == {"recorded": False}


def test_packaged_file_is_that_of_the_recorder() -> None:
    packaged = packaged_evidence()
    assert packaged.document is None or packaged.document.schema == SCHEMA
    assert isinstance(packaged.document, Document | None)
    assert fnmatch.filter([one.test for one in packaged.records], "tests/*.py::*") == [
        one.test for one in packaged.records
    ]
