"""Changes of a part of something: what is not to change has a word of its own, since None may be a value."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Keep(Enum):
    """In place of something that a change leaves as it is."""

    KEEP = auto()


KEEP: Final = Keep.KEEP
