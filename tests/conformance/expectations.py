"""Expectations of the suite: the tests to run, their families, and known failures."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).with_name("expectations.toml")


class Kind(StrEnum):
    """Why a test fails."""

    S3 = "s3"
    """The test contradicts S3's documentation."""

    UNSURE = "unsure"
    """The test interprets S3 differently; no documentation decides it. Counts as a failure."""

    CHOICE = "choice"
    """Lakebed differs on purpose."""

    GAP = "gap"
    """Lakebed does not support it."""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """An expected failure."""

    kind: Kind
    reason: str


class UnknownTest(Exception):
    """A test of the suite matches no family and no exclusion."""


@dataclass(frozen=True, slots=True)
class _Group:
    label: str
    pattern: re.Pattern[str]


class Expectations:
    """The families, the exclusions and the known failures."""

    def __init__(self, document: Mapping[str, Any]) -> None:  # Any: TOML's values
        self._excluded = [_group(item["reason"], item["names"]) for item in document["excluded"]]
        self._families = [_group(item["name"], item["names"]) for item in document["family"]]
        self.failures: dict[str, KnownFailure] = {}
        for item in document["failure"]:
            for name in item["names"]:
                if name in self.failures:
                    raise ValueError(f"listed twice: {name}")
                self.failures[name] = KnownFailure(Kind(item["kind"]), item["reason"])

    @property
    def families(self) -> list[str]:
        """The names of the families, in order."""
        return [family.label for family in self._families]

    def exclusion(self, name: str) -> str | None:
        """Why a test is not run; None if it is."""
        return _find(self._excluded, name)

    def family(self, name: str) -> str:
        """The family of a test that is run. Raises UnknownTest."""
        found = _find(self._families, name)
        if found is None:
            raise UnknownTest(f"test without a family in {PATH.name}: {name}")
        return found

    def chosen(self, names: Iterable[str]) -> list[str]:
        """The tests to run. Raises UnknownTest, and ValueError for known failures of tests that do not exist."""
        chosen = [name for name in names if self.exclusion(name) is None]
        for name in chosen:
            self.family(name)
        stale = self.failures.keys() - set(chosen)
        if stale:
            raise ValueError(f"known failures of tests that are not run: {', '.join(sorted(stale))}")
        return chosen


def load() -> Expectations:
    """Read the expectations beside this module."""
    return Expectations(tomllib.loads(PATH.read_text()))


def _group(label: str, names: Iterable[str]) -> _Group:
    return _Group(label, re.compile("|".join(f"(?:{name})" for name in names)))


def _find(groups: Iterable[_Group], name: str) -> str | None:
    return next((group.label for group in groups if group.pattern.fullmatch(name)), None)
