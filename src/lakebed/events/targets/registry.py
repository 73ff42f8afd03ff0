"""The kinds of targets that a server has, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from lakebed.core.errors import InvalidInput

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
