"""The kinds of targets that a server has, by name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.extras import EXTRAS, require_extra, require_modules

from .seam import TargetSettings, TargetType

Find: TypeAlias = Callable[[str], TargetType[Any]]  # Any: each kind has settings of its own

_FIELD: Final = re.compile(r"`\$\.(\w+)|field `(\w+)`")


class TargetTypes:
    """What targets can be made of."""

    def __init__(self, kinds: Iterable[TargetType[Any]], others: Find | None = None) -> None:
        """`others` finds those that are loaded when somebody asks for them; it raises InvalidInput, NotSupported."""
        self._kinds = {kind.name: kind for kind in kinds}
        self._others = others or self._unknown

    def find(self, name: str) -> TargetType[Any]:
        """The kind of that name. Raises InvalidInput; NotSupported if what it needs is not installed."""
        return self._kinds.get(name) or self._others(name)

    def read(self, name: str, document: Mapping[str, object]) -> TargetSettings:
        """Settings of a kind; a text may spell a number or a switch. Raises InvalidInput by the key's name."""
        kind = self.find(name)
        try:
            settings: TargetSettings = msgspec.convert(dict(document), kind.settings, strict=False)
        except msgspec.ValidationError as error:
            found = _FIELD.search(str(error))
            raise InvalidInput(str(error), argument=next(filter(None, found.groups())) if found else None) from None
        return settings

    def _unknown(self, name: str) -> TargetType[Any]:
        known = ", ".join(sorted(self._kinds))
        raise InvalidInput(f"no such type of target: {name[:80]}; there are {known}", argument="type")


KINDS: Final = ("amqp", "elasticsearch", "honker", "kafka", "mqtt", "mysql", "nats", "postgres", "pulsar", "redis")
"""Kinds that are modules of this package; where an extra `targets-KIND` exists, the module needs it."""

WITHOUT_EXTRA: Final = frozenset({"honker"})
"""Kinds whose library is installed by its own name: where it has no wheel, it takes a Rust compiler."""

MADE_BY_THE_SERVER: Final = ("pipeline", "webhook")
"""Kinds that need something of the server's own settings: it has them itself."""


def target_type_named(name: str) -> TargetType[Any]:  # Any: each kind has settings of its own
    """The kind. Raises InvalidInput if there is none, MissingExtra if its client library is not installed."""
    if name not in KINDS:
        known = ", ".join(sorted([*KINDS, *MADE_BY_THE_SERVER]))
        raise InvalidInput(f"no such type of target; there are {known}", argument="type", value=name[:80])
    if name in WITHOUT_EXTRA:
        require_modules((name,), name, f"target type {name}")
    elif (extra := f"targets-{name}") in EXTRAS:
        require_extra(extra, f"target type {name}")
    kind: TargetType[Any] = importlib.import_module(f"{__package__}.{name}").KIND
    return kind
