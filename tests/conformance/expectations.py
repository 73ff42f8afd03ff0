"""What is expected of the suite: which tests are run, in which family, and which failures are known."""

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
    """It asks for something else than S3's documentation says."""

    UNSURE = "unsure"
    """It reads S3 differently, and no documentation was found that settles it. Counted against us."""

    CHOICE = "choice"
    """Lakebed does otherwise on purpose."""

    GAP = "gap"
    """Lakebed does not have it."""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure that is expected."""

    kind: Kind
    reason: str


class UnknownTest(Exception):
    """The suite has a test that nobody has placed."""


@dataclass(frozen=True, slots=True)
class _Place:
    label: str
    pattern: re.Pattern[str]


class Expectations:
    """The families, the exclusions and the known failures."""

    def __init__(self, document: Mapping[str, Any]) -> None:  # Any: TOML's values
        self._excluded = [_place(item["reason"], item["names"]) for item in document["excluded"]]
        self._families = [_place(item["name"], item["names"]) for item in document["family"]]
        self.failures: dict[str, KnownFailure] = {}
        for item in document["failure"]:
            for name in item["names"]:
                if name in self.failures:
                    raise ValueError(f"listed twice: {name}")
                self.failures[name] = KnownFailure(Kind(item["kind"]), item["reason"])

    @property
    def families(self) -> list[str]:
        """Their names, in order."""
        return [family.label for family in self._families]

    def exclusion(self, name: str) -> str | None:
        """Why a test is not run; None if it is."""
        return _find(self._excluded, name)

    def family(self, name: str) -> str:
        """The family of a test that is run. Raises UnknownTest."""
        found = _find(self._families, name)
        if found is None:
            raise UnknownTest(f"place this test in {PATH.name}: {name}")
        return found

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Those of the suite's tests that are run. Raises UnknownTest, and ValueError for known failures of no test."""
        chosen = [name for name in names if self.exclusion(name) is None]
        for name in chosen:
            self.family(name)
        stale = self.failures.keys() - set(chosen)
        if stale:
            raise ValueError(f"known failures that are not run: {', '.join(sorted(stale))}")
        return chosen


def load() -> Expectations:
    """Read them from beside this module."""
    return Expectations(tomllib.loads(PATH.read_text()))


def _place(label: str, names: Iterable[str]) -> _Place:
    return _Place(label, re.compile("|".join(f"(?:{name})" for name in names)))


def _find(places: Iterable[_Place], name: str) -> str | None:
    return next((place.label for place in places if place.pattern.fullmatch(name)), None)
