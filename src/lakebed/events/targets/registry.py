"""The available target types, by name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.extras import EXTRAS, require_extra, require_modules

from .seam import TargetSettings, TargetType

Find: TypeAlias = Callable[[str], TargetType[Any]]  # Any: each type has its own settings class

_FIELD: Final = re.compile(r"`\$\.(\w+)|field `(\w+)`")


class TargetTypes:
    """Looks up target types and decodes their settings."""

    def __init__(self, types: Iterable[TargetType[Any]], load: Find | None = None) -> None:
        """`load` finds types that are imported on demand; it raises InvalidInput, NotSupported."""
        self._types = {type_.name: type_ for type_ in types}
        self._load = load or self._unknown

    def find(self, name: str) -> TargetType[Any]:
        """The type with that name. Raises InvalidInput; NotSupported if its library is not installed."""
        return self._types.get(name) or self._load(name)

    def read(self, name: str, document: Mapping[str, object]) -> TargetSettings:
        """Decode settings; numbers and booleans may be strings. Raises InvalidInput with the field as argument."""
        type_ = self.find(name)
        try:
            settings: TargetSettings = msgspec.convert(dict(document), type_.settings, strict=False)
        except msgspec.ValidationError as error:
            found = _FIELD.search(str(error))
            raise InvalidInput(str(error), argument=next(filter(None, found.groups())) if found else None) from None
        return settings

    def _unknown(self, name: str) -> TargetType[Any]:
        known = ", ".join(sorted(self._types))
        raise InvalidInput(f"unknown target type. type={name[:80]} expected={known}", argument="type")


TYPES: Final = ("amqp", "elasticsearch", "honker", "kafka", "mqtt", "mysql", "nats", "postgres", "pulsar", "redis")
"""Types that are modules of this package. Most need the extra `targets-TYPE`."""

WITHOUT_EXTRA: Final = frozenset({"honker"})
"""Types whose library is not in an extra, because platforms without a wheel need a Rust compiler for it."""

BUILT_IN: Final = ("pipeline", "webhook")
"""Types that the server constructs itself, since they depend on its settings."""


def load_target_type(name: str) -> TargetType[Any]:  # Any: each type has its own settings class
    """Import a target type. Raises InvalidInput for unknown names, MissingExtra without its client library."""
    if name not in TYPES:
        known = ", ".join(sorted([*TYPES, *BUILT_IN]))
        raise InvalidInput(f"unknown target type. type={name[:80]} expected={known}", argument="type", value=name[:80])
    if name in WITHOUT_EXTRA:
        require_modules((name,), name, f"target type {name}")
    elif (extra := f"targets-{name}") in EXTRAS:
        require_extra(extra, f"target type {name}")
    type_: TargetType[Any] = importlib.import_module(f"{__package__}.{name}").TYPE
    return type_
