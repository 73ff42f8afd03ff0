"""Classification and description of delivery failures."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final
from urllib.parse import quote, quote_plus

MAX_REASON_CHARS: Final = 256


class Fault(Enum):
    """The consequence of an error for the message and the connection."""

    MESSAGE = auto()
    """The destination rejects the message for good; the connection remains usable."""

    MESSAGE_AND_CONNECTION = auto()
    """The destination rejects the message for good and closed the connection."""

    TEMPORARY = auto()
    """A retry may succeed; the connection remains usable."""

    CONNECTION = auto()
    """The message may have arrived; the connection is unusable."""


def describe_error(error: BaseException, secrets: Iterable[str]) -> str:
    """The error's class and message in one line, with secrets redacted."""
    text = " ".join(str(error).split()) or "no details"
    # Longest first: a secret may contain another.
    for secret in sorted(filter(None, set(secrets)), key=len, reverse=True):
        for form in (secret, quote(secret, safe=""), quote_plus(secret)):
            text = text.replace(form, "***")
    return f"{type(error).__name__}: {text}"[:MAX_REASON_CHARS]
