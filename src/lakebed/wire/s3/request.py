"""An S3 request: which bucket and key it names, who sends it, and typed access to its headers and parameters."""

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
    """Let logs and the trace know who it is."""
    request.principal = principal.name
    session = principal.session
    if session is not None and session.delegation:
        request.delegated = session


class S3Request:
    """What a handler gets."""

    __slots__ = ("bucket", "caller", "headers", "http", "key", "who")

    def __init__(self, http: Request, target: S3Target, who: Authenticated, caller: Caller) -> None:
        self.http = http
        self.headers = http.headers
        self.bucket = target.bucket
        self.key = target.key
        self.who = who
        self.caller = caller

    @property
    def query(self) -> dict[str, str]:
        """Decoded query parameters."""
        return self.http.query

    def parameter(self, name: str) -> str | None:
        """A query parameter; an empty one counts as absent."""
        return self.http.query.get(name) or None

    def integer(self, name: str, default: int, *, most: int) -> int:
        """A number among the parameters, cut to `most`. Raises InvalidInput."""
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
        return min(value, most)

    def time_header(self, name: str) -> int | None:
        """A time among the headers, in milliseconds; one that cannot be read is as if absent, as RFC 9110 says."""
        text = self.headers.get(name)
        if text is None:
            return None
        try:
            return parse_time(text)
        except MalformedDocument:
            return None

    @property
    def version(self) -> str | None:
        """`versionId`. Raises AwsFault when it is there but cannot be one."""
        if not self.http.raw_query:
            return None
        version = self.http.query.get("versionId")
        if version == "":
            raise AwsFault(400, "InvalidArgument", "Version id cannot be the empty string", ArgumentName="versionId")
        return None if version is None else checked_version(version)

    @property
    def annotated_version(self) -> str | None:
        """`versionId` of a lock's request, where clients send an empty one for the current version. Raises AwsFault."""
        return self.version if self.http.query.get("versionId") else None


def checked_version(version: str) -> str:
    """The same version id, if it can be one: they are letters and digits. Raises AwsFault."""
    if not version.isascii() or not version.isalnum():
        raise AwsFault(
            400,
            "InvalidArgument",
            "Invalid version id specified",
            ArgumentName="versionId",
            ArgumentValue=version[:200],
        )
    return version
