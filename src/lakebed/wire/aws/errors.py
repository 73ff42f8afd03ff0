"""Errors in AWS's form: status, code, message and details."""

from __future__ import annotations

from lakebed.core.errors import LakebedError
from lakebed.wire.http.message import Headers


class AwsFault(LakebedError):
    """An error with a status and a code of AWS, which no service raises: a bad signature, a bad address."""

    def __init__(self, status: int, code: str, message: str, headers: Headers | None = None, /, **details: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or []
        self.details = details
        """Further elements of the error document."""
