"""What a failed attempt to deliver means, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final
from urllib.parse import quote, quote_plus

MAX_REASON_CHARS: Final = 256


class Fault(Enum):
    """What follows from an error."""

    MESSAGE = auto()
    """The other side will never take this message; the connection is good."""

    MESSAGE_AND_CONNECTION = auto()
    """The other side will never take this message, and hung up because of it."""

    MOMENT = auto()
    """Not now; the connection is good."""

    CONNECTION = auto()
    """Nobody knows whether it arrived; the connection is not to be used again."""


def describe_error(error: BaseException, secrets: Iterable[str]) -> str:
    """What went wrong in one line, with its class, and without the secrets that some errors quote."""
    text = " ".join(str(error).split()) or "no more is known"
    # The longest first: one that holds another must not be left in part.
    for secret in sorted({one for one in secrets if one}, key=len, reverse=True):
        for form in (secret, quote(secret, safe=""), quote_plus(secret)):
            text = text.replace(form, "***")
    return f"{type(error).__name__}: {text}"[:MAX_REASON_CHARS]
