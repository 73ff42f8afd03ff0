"""Changes of a part of something: what is not to change has a word of its own, since None may be a value."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Unset(Enum):
    """In place of something that a change leaves as it is."""

    UNSET = auto()


UNSET: Final = Unset.UNSET
