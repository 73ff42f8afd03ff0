"""Parses and prints setting values: one kind per type, from text (environment, flags) or TOML.

The type of a field in the settings tree selects its kind.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from ..errors import InvalidInput
from ..secrets import Secret
from ..sizes import format_bytes, format_seconds, parse_bytes, parse_seconds
from .address import HostPort


class NumberUnit(Enum):
    """The unit of a number that is written with one."""

    BYTES = "bytes"
    SECONDS = "seconds"


BYTES: Final = NumberUnit.BYTES
SECONDS: Final = NumberUnit.SECONDS


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, both included."""

    least: float = 0
    most: float = math.inf


class ValueKind(ABC):
    """Parses and prints values of one type."""

    expected: str
    """The expected value, for error messages: `a whole number`."""

    is_secret: bool = False

    @abstractmethod
    def from_text(self, text: str) -> object:
        """Parse an environment variable or flag. Raises InvalidInput."""

    def from_toml(self, raw: object) -> object:
        """Parse a TOML value; text by default. Raises InvalidInput."""
        if not isinstance(raw, str):
            raise self.wrong(raw)
        return self.from_text(raw)

    @abstractmethod
    def show(self, value: object) -> str:
        """The value as TOML; secrets as `"***"`."""

    def wrong(self, raw: object) -> InvalidInput:
        """The error for a value of another type. Shows the type, and the value unless it is secret."""
        kind = _toml_name(raw)
        found = kind if self.is_secret else f"{kind} {_shorten(raw)}"
        return InvalidInput(f"expected {self.expected}, found {found}")


class TextValue(ValueKind):
    """Any text."""

    expected = "text"

    def from_text(self, text: str) -> object:
        """The text itself."""
        return text

    def show(self, value: object) -> str:
        """A quoted string."""
        return quoted(str(value))


class SecretValue(ValueKind):
    """Text that is never printed."""

    expected = "a secret text"
    is_secret = True

    def from_text(self, text: str) -> object:
        """The text, hidden."""
        return Secret(text)

    def show(self, value: object) -> str:
        """Stars, or nothing when it is empty."""
        return '"***"' if value else '""'


class AnyValue(ValueKind):
    """A plain value whose meaning is defined elsewhere. Text is treated as secret, since it may be one."""

    expected = "a text, a number, true or false, or a list of texts"
    is_secret = True

    def from_text(self, text: str) -> object:
        """The text, hidden."""
        return Secret(text)

    def from_toml(self, raw: object) -> object:
        """The value, with texts hidden."""
        if isinstance(raw, bool | int | float):
            return raw
        if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
            return tuple(Secret(item) for item in raw)
        return super().from_toml(raw)

    def show(self, value: object) -> str:
        """Numbers and booleans in plain, stars for text."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return "[" + ", ".join(map(self.show, value)) + "]"
        return repr(value) if isinstance(value, int | float) else '"***"'


class BooleanValue(ValueKind):
    """True or false."""

    expected = "true or false"

    def from_text(self, text: str) -> object:
        """`true` or `false`, or `1` and `0`, which are usual in environments."""
        value = {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())
        if value is None:
            raise self.wrong(text)
        return value

    def from_toml(self, raw: object) -> object:
        """A TOML boolean."""
        if not isinstance(raw, bool):
            raise self.wrong(raw)
        return raw

    def show(self, value: object) -> str:
        """A TOML boolean."""
        return "true" if value else "false"


class NumberValue(ValueKind):
    """A number within bounds: whole, fractional, or with a unit."""

    def __init__(self, *, whole: bool, unit: NumberUnit | None, bounds: Within) -> None:
        self._whole = whole
        self._unit = unit
        self._bounds = bounds
        self.expected = self._noun() + self._range()

    def from_text(self, text: str) -> object:
        """Digits, with a unit where the number has one."""
        try:
            if self._unit is BYTES:
                return self._bounded(parse_bytes(text))
            if self._unit is SECONDS:
                return self._bounded(parse_seconds(text))
            return self._bounded(int(text) if self._whole else float(text))
        except (ValueError, InvalidInput) as error:
            raise self.wrong(text) from error

    def from_toml(self, raw: object) -> object:
        """A TOML number; text where the number has a unit."""
        if self._unit is not None and isinstance(raw, str):
            return self.from_text(raw)
        if isinstance(raw, bool) or not isinstance(raw, int if self._whole else (int, float)):
            raise self.wrong(raw)
        return self._bounded(raw if self._whole else float(raw))

    def show(self, value: object) -> str:
        """A number, or a quoted text with its unit."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"not a number. found={type(value).__name__}")
        if self._unit is BYTES:
            return quoted(format_bytes(int(value)))
        if self._unit is SECONDS:
            return quoted(format_seconds(value))
        return repr(value)

    def _bounded(self, number: float) -> float:
        if not math.isfinite(number) or not self._bounds.least <= number <= self._bounds.most:
            raise self.wrong(number)
        return number

    def _noun(self) -> str:
        if self._unit is BYTES:
            return "a size such as 8MiB"
        if self._unit is SECONDS:
            return "a duration such as 15s"
        return "a whole number" if self._whole else "a number"

    def _range(self) -> str:
        least, most = self._spell(self._bounds.least), self._spell(self._bounds.most)
        if self._bounds.most != math.inf:
            return f" from {least} to {most}"
        return f" of at least {least}" if self._bounds.least else ""

    def _spell(self, bound: float) -> str:
        if bound == math.inf:
            return ""
        if self._unit is BYTES:
            return format_bytes(int(bound))
        return format_seconds(bound) if self._unit is SECONDS else f"{bound:g}"


class PathValue(ValueKind):
    """A path, relative to the working directory."""

    expected = "a path"

    def from_text(self, text: str) -> object:
        """A path that is not empty; `~` and `~name` are home folders."""
        if not text or "\0" in text:
            raise self.wrong(text)
        try:
            return Path(text).expanduser()
        except RuntimeError as error:  # `~name` of a user without a home folder
            raise self.wrong(text) from error

    def show(self, value: object) -> str:
        """A quoted string."""
        return quoted(str(value))


class HostPortValue(ValueKind):
    """Host and port of a listener."""

    expected = "an address such as 127.0.0.1:9000"

    def from_text(self, text: str) -> object:
        """A host and a port."""
        return HostPort.parse(text)

    def show(self, value: object) -> str:
        """A quoted string."""
        return quoted(str(value))


class ChoiceValue(ValueKind):
    """A member of an enumeration."""

    def __init__(self, words: type[StrEnum]) -> None:
        self._words = words
        self.expected = "one of " + ", ".join(words)

    def from_text(self, text: str) -> object:
        """One of the values, in any case."""
        try:
            return self._words(text.strip().lower())
        except ValueError as error:
            raise self.wrong(text) from error

    def show(self, value: object) -> str:
        """A quoted string."""
        return quoted(str(value))


class OptionalValue(ValueKind):
    """A value that may be absent; an empty text unsets it."""

    def __init__(self, inner: ValueKind) -> None:
        self._inner = inner
        self.expected = inner.expected
        self.is_secret = inner.is_secret

    def from_text(self, text: str) -> object:
        """The value of the inner kind."""
        return self._inner.from_text(text) if text else None

    def from_toml(self, raw: object) -> object:
        """The value of the inner kind."""
        return None if raw == "" else self._inner.from_toml(raw)

    def show(self, value: object) -> str:
        """The value of the inner kind, or an empty string."""
        return '""' if value is None else self._inner.show(value)


class ListValue(ValueKind):
    """A list; in an environment variable, separated by commas."""

    def __init__(self, item: ValueKind) -> None:
        self._item = item
        self.expected = f"a list, each {item.expected}"
        self.is_secret = item.is_secret

    def from_text(self, text: str) -> object:
        """Items separated by commas."""
        return tuple(self._item.from_text(item.strip()) for item in text.split(",") if item.strip())

    def from_toml(self, raw: object) -> object:
        """A TOML array."""
        if not isinstance(raw, list):
            raise self.wrong(raw)
        return tuple(self._item.from_toml(item) for item in raw)

    def show(self, value: object) -> str:
        """A TOML array."""
        return "[" + ", ".join(self._item.show(item) for item in typing.cast("tuple[object, ...]", value)) + "]"


class TableValue(ValueKind):
    """A table with user-defined keys. Each entry is a setting: `encryption.keys.ID`."""

    def __init__(self, item: ValueKind) -> None:
        self.item = item
        self.expected = f"a table, each {item.expected}"
        self.is_secret = item.is_secret

    def from_text(self, text: str) -> object:
        """Not supported: entries are set one by one."""
        raise self.wrong(text)

    def from_toml(self, raw: object) -> object:
        """A TOML table."""
        if not isinstance(raw, dict):
            raise self.wrong(raw)
        return {name: self.item.from_toml(item) for name, item in raw.items()}

    def show(self, value: object) -> str:
        """A TOML inline table."""
        entries = typing.cast("Mapping[str, object]", value).items()
        return "{" + ", ".join(f"{quoted(name)} = {self.item.show(item)}" for name, item in entries) + "}"


class StructValue(ValueKind):
    """A group of settings: an entry of a table with user-defined keys, `oidc.providers.ID`."""

    def __init__(self, group: type[Any]) -> None:  # Any: a dataclass type, which typing cannot say
        self._group = group
        hints = typing.get_type_hints(group, include_extras=True)
        self._kinds = {item.name: kind_of(hints[item.name]) for item in dataclasses.fields(group)}
        self.expected = f"a table of {', '.join(self._kinds)}"
        self.is_secret = any(kind.is_secret for kind in self._kinds.values())

    def from_text(self, text: str) -> object:
        """A TOML inline table."""
        try:
            raw = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise self.wrong(text) from error
        return self.from_toml(raw)

    def from_toml(self, raw: object) -> object:
        """A table with some or all of the keys."""
        if not isinstance(raw, dict):
            raise self.wrong(raw)
        values: dict[str, object] = {}
        for name, value in raw.items():
            kind = self._kinds.get(name)
            if kind is None:
                raise InvalidInput(f"no such setting: {name}; expected one of {', '.join(self._kinds)}")
            try:
                values[name] = kind.from_toml(value)
            except InvalidInput as error:
                raise InvalidInput(f"{name}: {error}") from error
        return self._group(**values)

    def show(self, value: object) -> str:
        """A TOML inline table."""
        shown = ", ".join(f"{name} = {kind.show(getattr(value, name))}" for name, kind in self._kinds.items())
        return "{" + shown + "}"


_PLAIN: Final[Mapping[object, type[ValueKind]]] = {
    str: TextValue,
    object: AnyValue,
    Secret: SecretValue,
    bool: BooleanValue,
    Path: PathValue,
    HostPort: HostPortValue,
}


def kind_of(annotation: Any) -> ValueKind:  # Any: an annotation is whatever `get_type_hints` gives
    """The kind of a field's type. Raises TypeError for a type that settings do not have."""
    markers: tuple[object, ...] = ()
    if typing.get_origin(annotation) is Annotated:
        annotation, *rest = typing.get_args(annotation)
        markers = tuple(rest)
    if annotation in (int, float):
        bounds = next((m for m in reversed(markers) if isinstance(m, Within)), None)
        unit = next((m for m in markers if isinstance(m, NumberUnit)), None)
        # No setting is negative.
        return NumberValue(whole=annotation is int, unit=unit, bounds=bounds or Within())
    if plain := _PLAIN.get(annotation):
        return plain()
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ChoiceValue(annotation)
    arguments = typing.get_args(annotation)
    if isinstance(annotation, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        return OptionalValue(kind_of(arguments[0]))
    origin = typing.get_origin(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ListValue(kind_of(arguments[0]))
    if origin is Mapping and arguments[0] is str:
        return TableValue(kind_of(arguments[1]))
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return StructValue(annotation)
    raise TypeError(f"no kind of setting for this type. type={annotation}")


def quoted(text: str) -> str:
    """The text as a TOML basic string."""
    plain = {"\\": "\\\\", '"': '\\"'}
    return '"' + "".join(plain.get(c) or (c if c.isprintable() else f"\\U{ord(c):08X}") for c in text) + '"'


def _toml_name(raw: object) -> str:
    names = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a table",
    }
    return names.get(type(raw), type(raw).__name__)


def _shorten(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else text[:57] + "..."
