"""Results of the test suite, packaged with this build: the only source of claims.

`evidence_summary.json` has one result per selector of a claim, and counts per client. `make evidence` writes it, only
after a run of all tests of claims without failures. A skipped test is no evidence.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from pathlib import Path
from typing import Any, Final

import msgspec

import lakebed
from lakebed.core.errors import Corrupted

SCHEMA: Final = "lakebed-test-evidence-summary"
SCHEMA_VERSION: Final = 1
FILE: Final = "evidence_summary.json"

_SOURCES: Final = frozenset({".py", ".sql", ".c"})
"""Suffixes of source files. Other files of the package are built from these, or are the summary itself."""


class SelectorResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Result of all tests that a selector matches."""

    passed: int = 0
    skipped: tuple[str, ...] = ()
    """Names of the tests that were skipped."""


class ScenarioCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Number of tests of a client's scenario, by their result."""

    passed: int = 0
    skipped: int = 0


class ClientResults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Results of the tests that use one client."""

    files: tuple[str, ...]
    """The test files, in order."""
    scenarios: dict[str, ScenarioCounts]

    @property
    def has_passed(self) -> bool:
        """Whether any test passed."""
        return any(counts.passed for counts in self.scenarios.values())


class Summary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    schema: str
    schema_version: int
    lakebed_version: str
    source_digest: str
    """Digest of the tested sources."""
    date_utc: str
    client_versions: dict[str, str]
    """Versions by client."""
    tests: int
    results: dict[str, SelectorResult]
    """Results by selector. A selector that matched no test is absent."""
    clients: dict[str, ClientResults]


_NOT_TESTED: Final = ClientResults((), {})


class EvidenceSummary:
    """Looks up results in a summary; without one, nothing was tested."""

    def __init__(self, summary: Summary | None) -> None:
        self.summary = summary

    def result(self, selector: str) -> SelectorResult | None:
        """Result of the tests that a claim's selector matches; None if none of them ran."""
        return None if self.summary is None else self.summary.results.get(selector)

    @property
    def clients(self) -> list[str]:
        """Names of the clients that were tested, in order."""
        return [] if self.summary is None else sorted(self.summary.clients)

    def of_client(self, client: str) -> ClientResults:
        """Results of the tests that use a client."""
        return _NOT_TESTED if self.summary is None else self.summary.clients.get(client, _NOT_TESTED)

    def versions_of(self, client: str) -> list[str]:
        """The version of a client that ran; empty if it did not."""
        known = {} if self.summary is None else self.summary.client_versions
        return [known[client]] if client in known else []

    def described(self) -> dict[str, Any]:  # Any: JSON
        """The test run, and whether it tested the sources of this build."""
        if self.summary is None:
            return {"recorded": False}
        return {
            "recorded": True,
            "date_utc": self.summary.date_utc,
            "lakebed_version": self.summary.lakebed_version,
            "is_of_these_sources": self.summary.source_digest == source_digest(),
            "client_versions": self.summary.client_versions,
            "tests": self.summary.tests,
        }


def parse_summary(data: bytes) -> EvidenceSummary:
    """Parse the file. Raises Corrupted."""
    try:
        summary = msgspec.json.decode(data, type=Summary)
    except msgspec.DecodeError as error:
        raise Corrupted(f"{FILE} does not parse: {error}") from error
    if (summary.schema, summary.schema_version) != (SCHEMA, SCHEMA_VERSION):
        raise Corrupted(f"{FILE} has another schema. found={summary.schema} version={summary.schema_version}")
    return EvidenceSummary(summary)


def packaged_evidence() -> EvidenceSummary:
    """The results packaged with this build; empty if the file is missing. Raises Corrupted."""
    file = importlib.resources.files(__package__).joinpath(FILE)
    return parse_summary(file.read_bytes()) if file.is_file() else EvidenceSummary(None)


def source_digest(root: Path | None = None) -> str:
    """SHA-256 over the names and bytes of a package's source files, by default this package's.

    Relates test results to the tested code.
    """
    root = Path(lakebed.__file__).parent if root is None else root
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in _SOURCES):
        body = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(body)}\0".encode())
        digest.update(body)
    return digest.hexdigest()
