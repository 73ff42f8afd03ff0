from __future__ import annotations

import fnmatch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.conform.evidence import SCHEMA, Document, Evidence, packaged_evidence, parse_evidence, selected, selects
from lakebed.conform.sources import source_digest
from lakebed.core.errors import Corrupted

from .records import NOTHING, document, evidence, record


@pytest.mark.parametrize(
    ("selector", "is_meant"),
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
def test_selector_means_a_file_or_a_test(selector: str, is_meant: bool) -> None:
    assert selects(selector, "tests/a/test_b.py::test_c") is is_meant
    assert selected(["tests/none.py", selector], "tests/a/test_b.py::test_c") is is_meant


def test_document_is_read_as_it_was_written() -> None:
    made = document(record("tests/a.py::test_a"), record("tests/b.py::test_b", "skipped", client="duckdb"))
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


@pytest.mark.parametrize("status", ["failed", "believed"])
def test_test_has_passed_or_was_skipped(status: str) -> None:
    fields = msgspec.to_builtins(document(record("tests/a.py::test_a")))
    fields["records"][0]["status"] = status
    with pytest.raises(Corrupted):
        parse_evidence(msgspec.json.encode(fields))


def test_records_are_found_by_client_and_selector() -> None:
    first, second = record("tests/a.py::test_a", client="spark"), record("tests/b.py::test_b")
    known = evidence(first, second)
    assert known.of_client("spark") == [first]
    assert known.matching("tests/b.py") == [second]
    assert (known.versions_of("spark"), known.versions_of("trino")) == (["1.2.3"], [])
    assert NOTHING.versions_of("spark") == []


@pytest.mark.parametrize("is_same", [True, False])
def test_evidence_says_whether_it_is_of_the_sources_that_run(is_same: bool) -> None:
    made = document(record("tests/a.py::test_a", client="spark"))
    if is_same:
        made = msgspec.structs.replace(made, source_digest=source_digest())
    assert Evidence(made).described() == {
        "recorded": True,
        "date_utc": "2026-01-31T12:00:00Z",
        "lakebed_version": "0.1",
        "is_of_these_sources": is_same,
        "client_versions": {"spark": "1.2.3"},
        "tests": 1,
    }
    assert NOTHING.described() == {"recorded": False}


def test_packaged_file_is_that_of_the_recorder() -> None:
    packaged = packaged_evidence()
    assert packaged.document is None or packaged.document.schema == SCHEMA
    assert isinstance(packaged.document, Document | None)
    assert fnmatch.filter([one.test for one in packaged.records], "tests/*.py::*") == [
        one.test for one in packaged.records
    ]
