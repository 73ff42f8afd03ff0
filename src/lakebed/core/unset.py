"""A marker for fields that an update leaves unchanged, since None may be a value."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Unset(Enum):
    """The type of `UNSET`: the field is not part of the update."""

    UNSET = auto()


UNSET: Final = Unset.UNSET
