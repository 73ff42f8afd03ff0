from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.json.documents import StrictDocument, Word, parse_strict_document


class Document(StrictDocument):
    """A document of two fields."""

    metadata_location: str
    commit_id: Word = ""


def parse(document: object) -> Document:
    return parse_strict_document(json.dumps(document).encode(), Document)


@pytest.mark.parametrize(
    "document",
    [
        {"metadata-location": "x", "commit-id": "c"},
        {"metadataLocation": "x", "commitId": "c"},
        {"metadataLocation": "x", "commit-id": "c"},
    ],
)
def test_both_spellings_mean_the_same(document: dict[str, str]) -> None:
    assert parse(document) == Document(metadata_location="x", commit_id="c")


@pytest.mark.parametrize(
    "document",
    [
        {"metadata-location": "x", "unknown": 1},
        {"metadata-location": "x", "unknownField": 1},
        {"metadata_location": "x"},
        {"metadata-location": "x", "metadataLocation": "x"},
        {"metadata-location": 7},
        {"metadata-location": "x", "commit-id": "a\nb"},
        {"metadata-location": "x", "commit-id": "x" * 513},
        {},
        [],
        "x",
    ],
)
def test_unknown_and_invalid_fields_are_refused(document: object) -> None:
    with pytest.raises(InvalidInput):
        parse(document)


@given(st.binary(max_size=200))
def test_random_bodies_are_parsed_or_refused(body: bytes) -> None:
    with suppress(InvalidInput):
        assert isinstance(parse_strict_document(body, Document), Document)


def test_empty_body_is_an_empty_document() -> None:
    assert parse_strict_document(b"", StrictDocument) == StrictDocument()
    assert parse_strict_document(b"{}", StrictDocument) == StrictDocument()
    with pytest.raises(InvalidInput):
        parse_strict_document(b'{"a": 1}', StrictDocument)


def test_extensions_are_routes_outside_the_specification() -> None:
    served = {(route.method, route.path) for route in catalog_routes().routes if not route.is_standard}
    table = "/v1/{warehouse}/namespaces/{namespace}/tables/{table}"
    expected = {
        ("GET", "/v1/{warehouse}/catalog/migration"),
        ("POST", "/v1/{warehouse}/catalog/migration"),
        ("DELETE", "/v1/{warehouse}/catalog/migration"),
        ("GET", f"{table}/refs"),
        ("PUT", f"{table}/refs/{{ref}}"),
        ("DELETE", f"{table}/refs/{{ref}}"),
        ("GET", f"{table}/metadata-location"),
        ("PUT", f"{table}/metadata-location"),
        ("GET", f"{table}/catalog/export"),
        ("POST", f"{table}/catalog/import"),
        ("GET", f"{table}/catalog/external"),
        ("PUT", f"{table}/catalog/external"),
        ("POST", f"{table}/catalog/external/sync"),
        ("GET", f"{table}/catalog/diagnostics"),
        ("POST", f"{table}/catalog/recovery"),
        ("POST", f"{table}/catalog/rollback"),
    }
    assert expected <= served
