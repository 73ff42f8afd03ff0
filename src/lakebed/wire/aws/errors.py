"""Errors as AWS returns them: status, code, message and details."""

from __future__ import annotations

from lakebed.core.errors import LakebedError
from lakebed.wire.http.message import Headers


class AwsFault(LakebedError):
    """A protocol error with AWS's status and code, such as an invalid signature or URI."""

    def __init__(self, status: int, code: str, message: str, headers: Headers | None = None, /, **details: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or []
        self.details = details
        """Additional elements of the error document."""
