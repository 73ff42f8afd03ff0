"""Merges the layers of settings into one tree: defaults < file < environment < flags.

Unknown keys are an error that names the path and the nearest known key. The caller reads the file and the environment
and passes their contents.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ..errors import InvalidInput, InvalidSetting
from .checks import check_settings
from .kinds import TableValue, ValueKind, kind_of
from .tree import Settings

Section = TypeVar("Section")

ENVIRONMENT_PREFIX: Final = "LAKEBED_"
ENVIRONMENT_ALIASES: Final[Mapping[str, str]] = {
    "LAKEBED_ROOT_ACCESS_KEY": "root.access_key",
    "LAKEBED_ROOT_SECRET_KEY": "root.secret_key",
}
"""Documented aliases with single underscores, because users set them by hand."""

CLIENT_VARIABLES: Final = frozenset(
    "LAKEBED_" + name
    for name in (
        "ACCESS_KEY",
        "ENDPOINT",
        "REGION",
        "S3_ENDPOINT",
        "SECRET_KEY",
        "STREAMS",
        "TABLE_ACCOUNT_ID",
        "TABLE_BUCKET",
        "TABLE_BUCKET_NAME",
        "TABLE_CATALOG_NAME",
        "TABLE_CATALOG_URI",
        "TABLE_NAME",
        "TABLE_NAMESPACE",
        "TABLE_PROFILE",
        "TABLE_REST_PATH",
        "TABLE_REST_SIGNING_NAME",
        "TABLE_SMOKE_TIMEOUT",
        "TABLE_WAREHOUSE",
        "TABLE_WAREHOUSE_NAME",
    )
)
"""Variables of clients. A server started from the same shell ignores them."""

DEFAULT: Final = "default"
"""The origin of a default value."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The text of a settings file, and its name for error messages."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The tree, and the origin of each value that is not a default."""

    settings: Settings
    origins: Mapping[str, str]
    """Setting path to origin: `lakebed.toml`, `LAKEBED_SERVER__LISTEN` or `--listen`. Absent paths have defaults."""


@dataclass(frozen=True, slots=True)
class _Given:
    path: str
    value: object
    origin: str


def load_settings(
    *,
    file: SettingsFile | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, str]] | None = None,
) -> LoadedSettings:
    """Merge the layers and validate the result.

    `environ` may be the whole environment: only `LAKEBED_…` counts. `flags` maps a path to the flag's name and its
    text. Raises InvalidSetting, starting with the path.
    """
    given: dict[str, _Given] = {}
    if file is not None:
        given.update((entry.path, entry) for entry in _from_file(file))
    given.update(_from_environment(environ or {}))
    for path, (flag, text) in (flags or {}).items():
        given[path] = _from_text(path, text, flag)
    origins = {path: entry.origin for path, entry in given.items()}
    settings = _build(Settings, "", {path: entry.value for path, entry in given.items()})
    check_settings(settings)
    return LoadedSettings(settings, origins)


def known_settings() -> Mapping[str, ValueKind]:
    """Every setting path and its kind, in the order of the tree."""
    return _KINDS


def environment_name(path: str) -> str:
    """The variable that sets `path`: `LAKEBED_SERVER__LISTEN`."""
    return ENVIRONMENT_PREFIX + path.upper().replace(".", "__")


def _leaves(section: type[Any], prefix: str) -> Iterator[tuple[str, ValueKind]]:  # Any: each section is its own class
    hints = typing.get_type_hints(section, include_extras=True)
    for item in dataclasses.fields(section):
        hint = hints[item.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type) and hint.__name__.endswith("Settings"):
            yield from _leaves(hint, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, kind_of(hint)


_KINDS: Final[Mapping[str, ValueKind]] = dict(_leaves(Settings, ""))


def _from_file(file: SettingsFile) -> Iterator[_Given]:
    try:
        document = tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{file.name}: not a TOML file: {error}") from error
    yield from _walk(document, "", file.name)


def _walk(table: Mapping[str, object], prefix: str, origin: str) -> Iterator[_Given]:
    for name, raw in table.items():
        path = prefix + name
        kind = _KINDS.get(path)
        if isinstance(kind, TableValue) and isinstance(raw, dict):
            entries = {key: _read(f"{path}.{key}", kind.item.from_toml, item, origin) for key, item in raw.items()}
            yield _Given(path, entries, origin)
        elif kind is not None:
            yield _Given(path, _read(path, kind.from_toml, raw, origin), origin)
        elif not any(known.startswith(path + ".") for known in _KINDS):
            raise _unknown(path, origin)
        elif isinstance(raw, dict):
            yield from _walk(raw, path + ".", origin)
        else:
            raise InvalidSetting(f"{path}: expected a table, found a value. given_by={origin}", argument=path)


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in CLIENT_VARIABLES:
            continue
        path = ENVIRONMENT_ALIASES.get(name) or name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        table, _, key = path.rpartition(".")
        kind = _KINDS.get(table)
        if isinstance(kind, TableValue):
            entry = _read(path, kind.item.from_text, text, name)
            before = given.get(table)
            entries = {**typing.cast("dict[str, object]", before.value if before else {}), key: entry}
            given[table] = _Given(table, entries, f"{environment_name(table)}__…")
        elif path in given:
            raise InvalidSetting(f"{path}: given twice. given_by={given[path].origin} and={name}", argument=path)
        else:
            given[path] = _from_text(path, text, name)
    return given


def _from_text(path: str, text: str, origin: str) -> _Given:
    kind = _KINDS.get(path)
    if kind is None:
        raise _unknown(path, origin)
    return _Given(path, _read(path, kind.from_text, text, origin), origin)


_Raw = TypeVar("_Raw")


def _read(path: str, read: typing.Callable[[_Raw], object], raw: _Raw, origin: str) -> object:
    try:
        return read(raw)
    except InvalidInput as error:
        raise InvalidSetting(f"{path}: {error}. given_by={origin}", argument=path) from error


def _unknown(path: str, origin: str) -> InvalidSetting:
    near = difflib.get_close_matches(path, _KINDS, n=1, cutoff=0.5)
    if not near:
        # Also suggest the same name in another section.
        near = [known for known in _KINDS if known.rpartition(".")[2] == path.rpartition(".")[2]][:1]
    if near:
        advice = f"nearest={environment_name(near[0]) if origin.startswith(ENVIRONMENT_PREFIX) else near[0]}"
    else:
        advice = "sections=" + ",".join(item.name for item in dataclasses.fields(Settings))
    return InvalidSetting(f"{path}: no such setting. given_by={origin} {advice}", argument=path)


def _build(section: type[Section], prefix: str, values: Mapping[str, object]) -> Section:
    arguments: dict[str, object] = {}
    hints = typing.get_type_hints(section)
    for item in dataclasses.fields(typing.cast("Any", section)):  # Any: a dataclass type, which typing cannot say
        path = prefix + item.name
        if path in _KINDS:
            if path in values:
                arguments[item.name] = values[path]
        elif any(known.startswith(path + ".") for known in values):
            arguments[item.name] = _build(hints[item.name], path + ".", values)
    return section(**arguments)
