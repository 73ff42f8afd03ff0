"""Prints the effective settings as TOML, each with the origin of its value, without secrets."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from .loading import DEFAULT, LoadedSettings, known_settings


def describe(loaded: LoadedSettings) -> str:
    """A TOML document that parses to the same tree, except for secrets, which are stars."""
    return "\n".join(_lines(loaded)) + "\n"


def _lines(loaded: LoadedSettings) -> Iterator[str]:
    section = ""
    for path, kind in known_settings().items():
        table, _, name = path.rpartition(".")
        if table != section:
            yield from ([""] if section else [])
            yield f"[{table}]"
            section = table
        value: object = functools.reduce(getattr, path.split("."), loaded.settings)
        yield f"{name} = {kind.show(value)}  # {loaded.origins.get(path, DEFAULT)}"
