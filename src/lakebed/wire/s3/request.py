"""An S3 request: its bucket and key, its caller, and typed access to its headers and parameters."""

from __future__ import annotations

from lakebed.core.access import Principal
from lakebed.core.errors import InvalidInput
from lakebed.objects.model import Caller
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import signed_number
from lakebed.wire.aws.request_target import S3Target
from lakebed.wire.http.message import Request

from .xml import MalformedDocument, parse_time


def log_principal(request: Request, principal: Principal) -> None:
    """Record the caller for logs and the delegation trace."""
    request.principal = principal.name
    session = principal.session
    if session is not None and session.delegation:
        request.delegated = session


class S3Request:
    """The request as handlers receive it."""

    __slots__ = ("authenticated", "bucket", "caller", "headers", "http", "key")

    def __init__(self, http: Request, target: S3Target, authenticated: Authenticated, caller: Caller) -> None:
        self.http = http
        self.headers = http.headers
        self.bucket = target.bucket
        self.key = target.key
        self.authenticated = authenticated
        self.caller = caller

    @property
    def query(self) -> dict[str, str]:
        """Decoded query parameters."""
        return self.http.query

    def parameter(self, name: str) -> str | None:
        """A query parameter; None if it is absent or empty."""
        return self.http.query.get(name) or None

    def integer(self, name: str, default: int, *, maximum: int) -> int:
        """An integer parameter, reduced to `maximum`. Raises InvalidInput."""
        text = self.http.query.get(name)
        if text is None or text == "":
            return default
        value = signed_number(text)
        if value is None or value > 2**31 - 1:
            raise InvalidInput(f"Provided {name} not an integer or within integer range", argument=name, value=text)
        if value < 0:
            raise InvalidInput(
                f"Argument {name} must be an integer between 0 and {2**31 - 1}", argument=name, value=text
            )
        return min(value, maximum)

    def time_header(self, name: str) -> int | None:
        """A time header, in milliseconds since the epoch; a malformed one is ignored (RFC 9110)."""
        text = self.headers.get(name)
        if text is None:
            return None
        try:
            return parse_time(text)
        except MalformedDocument:
            return None

    @property
    def version(self) -> str | None:
        """`versionId`. Raises AwsFault if it is malformed."""
        if not self.http.raw_query:
            return None
        version = self.http.query.get("versionId")
        if version == "":
            raise AwsFault(400, "InvalidArgument", "Version id cannot be the empty string", ArgumentName="versionId")
        return None if version is None else checked_version(version)

    @property
    def annotated_version(self) -> str | None:
        """`versionId` of retention and legal hold requests, where clients send an empty one for the current version."""
        return self.version if self.http.query.get("versionId") else None


def checked_version(version: str) -> str:
    """The version id, after checking that it has only letters and digits. Raises AwsFault."""
    if not version.isascii() or not version.isalnum():
        raise AwsFault(
            400,
            "InvalidArgument",
            "Invalid version id specified",
            ArgumentName="versionId",
            ArgumentValue=version[:200],
        )
    return version
