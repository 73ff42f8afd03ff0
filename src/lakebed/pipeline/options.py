"""Options of jobs: specification and parsing. Pure.

Values are typed, from a task, or text, from a command line. Unknown and invalid options are refused by name before
Spark starts.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, Option
from lakebed.core.sizes import parse_bytes, parse_seconds


class OptionUnit(Enum):
    """The unit of a number written with a suffix."""

    NONE = "none"
    BYTES = "bytes"
    MILLISECONDS = "milliseconds"


@dataclass(frozen=True, slots=True)
class OptionSpec(ABC):
    """An option of a job."""

    name: str
    text: str
    """Description for help texts."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """The expected value, for error messages."""

    @abstractmethod
    def read(self, value: Option) -> Option:
        """Parse a value. Raises ValueError or InvalidInput."""


@dataclass(frozen=True, slots=True)
class IntegerOption(OptionSpec):
    """An integer; with a unit also text such as `128MiB` or `7d`."""

    least: int = 0
    unit: OptionUnit = OptionUnit.NONE

    @property
    def expected(self) -> str:
        """The expected value."""
        noun = {
            OptionUnit.BYTES: "a size such as 128MiB",
            OptionUnit.MILLISECONDS: "milliseconds, or a duration such as 7d",
        }
        return f"{noun.get(self.unit, 'an integer')} of at least {self.least}"

    def read(self, value: Option) -> Option:
        """An integer of at least `least`."""
        if isinstance(value, str):
            number = self._from_text(value)
        elif isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        else:
            number = value
        if number < self.least:
            raise ValueError
        return number

    def _from_text(self, text: str) -> int:
        if self.unit is OptionUnit.BYTES:
            return parse_bytes(text)
        if self.unit is OptionUnit.MILLISECONDS and not text.strip().isdigit():
            return round(parse_seconds(text) * 1000)
        return int(text)


@dataclass(frozen=True, slots=True)
class RatioOption(OptionSpec):
    """A number above 0, up to 1."""

    @property
    def expected(self) -> str:
        """The expected value."""
        return "a number above 0, up to 1"

    def read(self, value: Option) -> Option:
        """A number within bounds."""
        if isinstance(value, bool | list):
            raise ValueError
        number = float(value)
        if not math.isfinite(number) or not 0 < number <= 1:
            raise ValueError
        return number


@dataclass(frozen=True, slots=True)
class BooleanOption(OptionSpec):
    """True or false."""

    @property
    def expected(self) -> str:
        """The expected value."""
        return "true or false"

    def read(self, value: Option) -> Option:
        """A boolean, or its text."""
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        raise ValueError


@dataclass(frozen=True, slots=True)
class TextOption(OptionSpec):
    """Text, optionally one of a few choices."""

    choices: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The expected value."""
        return f"one of {', '.join(self.choices)}" if self.choices else "text"

    def read(self, value: Option) -> Option:
        """Text that is not empty."""
        if not isinstance(value, str) or not value.strip():
            raise ValueError
        if not self.choices:
            return value.strip()
        word = value.strip().lower()
        if word not in self.choices:
            raise ValueError
        return word


@dataclass(frozen=True, slots=True)
class ListOption(OptionSpec):
    """A list of names; as text, with commas between them."""

    @property
    def expected(self) -> str:
        """The expected value."""
        return "a list of names, such as a,b"

    def read(self, value: Option) -> Option:
        """A list that is not empty."""
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError
        names = [one.strip() for one in value]
        if not names or not all(names):
            raise ValueError
        return names


class Options:
    """Validated options of a job. Absent options are None, or the given default."""

    def __init__(self, values: Mapping[str, Option]) -> None:
        self._values = dict(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def number(self, name: str) -> int | None:
        """The value of an integer option."""
        value = self._values.get(name)
        return value if isinstance(value, int) else None

    def ratio(self, name: str, default: float) -> float:
        """The value of a ratio option."""
        value = self._values.get(name)
        return float(value) if isinstance(value, int | float) else default

    def switch(self, name: str, default: bool = False) -> bool:
        """The value of a boolean option."""
        value = self._values.get(name)
        return value if isinstance(value, bool) else default

    def text(self, name: str) -> str | None:
        """The value of a text option."""
        value = self._values.get(name)
        return value if isinstance(value, str) else None

    def names(self, name: str) -> list[str] | None:
        """The value of a list option."""
        value = self._values.get(name)
        return value if isinstance(value, list) else None

    def as_text(self, name: str) -> str | None:
        """The value in the form that Iceberg's actions take."""
        value = self._values.get(name)
        if value is None or isinstance(value, list):
            return None
        return str(value).lower() if isinstance(value, bool) else str(value)


def read_options(job: JobKind, specs: Sequence[OptionSpec], given: Mapping[str, Option]) -> Options:
    """Validate options of a job. Raises InvalidInput that names the option."""
    known = {spec.name: spec for spec in specs}
    values: dict[str, Option] = {}
    for name, value in given.items():
        spec = known.get(name)
        if spec is None:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"nearest={near[0]}" if near else f"options={','.join(known) or 'none'}"
            raise InvalidInput(f"unknown option of {job}. option={name} {advice}", argument=name)
        try:
            values[name] = spec.read(value)
        except (ValueError, InvalidInput) as error:
            raise InvalidInput(
                f"{job}: {name} expects {spec.expected}. found={value!r}", argument=name, value=str(value)
            ) from error
    return Options(values)
