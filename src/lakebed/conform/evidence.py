"""What the test suite showed, as packaged with this build: the only ground that printed claims stand on.

`evidence.json` is written by the tests' recorder (`make evidence`), never by hand, and only by a run of all that claims
need in which nothing failed. A test that was skipped shows nothing.
"""

from __future__ import annotations

import fnmatch
import importlib.resources
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from lakebed.core.errors import Corrupted

from .sources import source_digest

SCHEMA: Final = "lakebed-test-evidence"
SCHEMA_VERSION: Final = 1
FILE: Final = "evidence.json"

Status = Literal["passed", "skipped"]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one test; all its parameters together."""

    client: str
    """Through which client it spoke: `pyiceberg`, `duckdb`, …; `lakebed` for tests inside the process."""
    scenario: str
    status: Status
    test: str
    """`tests/….py::test_name`."""


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    schema: str
    schema_version: int
    lakebed_version: str
    source_digest: str
    """Of the sources that were tested."""
    date_utc: str
    client_versions: dict[str, str]
    """Of the clients that ran."""
    records: list[Record]


class Evidence:
    """The records, to be asked."""

    def __init__(self, document: Document | None) -> None:
        self.document = document
        self.records: Sequence[Record] = () if document is None else document.records

    def matching(self, selector: str) -> list[Record]:
        """Records of the tests that it selects."""
        return [record for record in self.records if selects(selector, record.test)]

    def of_client(self, client: str) -> list[Record]:
        """Records of the tests that spoke through a client."""
        return [record for record in self.records if record.client == client]

    def versions_of(self, client: str) -> list[str]:
        """The version of a client that ran; nothing if it did not."""
        known = {} if self.document is None else self.document.client_versions
        return [known[client]] if client in known else []

    def described(self) -> dict[str, Any]:  # Any: JSON
        """Where the claims come from, and whether it is what is running here."""
        if self.document is None:
            return {"recorded": False}
        return {
            "recorded": True,
            "date_utc": self.document.date_utc,
            "lakebed_version": self.document.lakebed_version,
            "is_of_these_sources": self.document.source_digest == source_digest(),
            "client_versions": self.document.client_versions,
            "tests": len(self.records),
        }


def selects(selector: str, test: str) -> bool:
    """Whether a selector means a test: `file`, `file::test`, or either with `*`."""
    return fnmatch.fnmatchcase(test, selector) or fnmatch.fnmatchcase(test.partition("::")[0], selector)


def selected(selectors: Iterable[str], test: str) -> bool:
    """Whether any of these means it."""
    return any(selects(selector, test) for selector in selectors)


def parse_evidence(data: bytes) -> Evidence:
    """Read the file. Raises Corrupted."""
    try:
        document = msgspec.json.decode(data, type=Document)
    except msgspec.DecodeError as error:
        raise Corrupted(f"{FILE} does not parse: {error}") from error
    if (document.schema, document.schema_version) != (SCHEMA, SCHEMA_VERSION):
        raise Corrupted(f"{FILE} has another schema. found={document.schema} version={document.schema_version}")
    return Evidence(document)


def packaged_evidence() -> Evidence:
    """What came with this build; empty if nothing did. Raises Corrupted."""
    file = importlib.resources.files(__package__).joinpath(FILE)
    return parse_evidence(file.read_bytes()) if file.is_file() else Evidence(None)
