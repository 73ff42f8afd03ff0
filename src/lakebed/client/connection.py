"""Calls to a server: signed, repeated where that can help and cannot harm, and read into values."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol, TypeVar

import msgspec

from lakebed import __version__
from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import LakebedError, StorageFull, Unavailable
from lakebed.core.sigv4 import canonical_query, signed_headers

from .access import ServerAccess
from .failures import failure_of, s3_failure_of
from .transport import Reply, Transport

T = TypeVar("T")


class Page(Protocol):
    """A part of a list."""

    @property
    def next_page_token(self) -> str | None:
        """What to ask for the next part with; None at the end."""
        ...


P = TypeVar("P", bound=Page)

ATTEMPTS: Final = 4
"""How often a call is tried that may be repeated."""

_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 5.0
_SAFE: Final = frozenset({"GET", "HEAD"})

_encode = msgspec.json.Encoder().encode


class Connection:
    """Calls to one server. Safe for threads."""

    def __init__(
        self,
        access: ServerAccess,
        *,
        timeout_seconds: float = 60.0,
        attempts: int = ATTEMPTS,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`timeout_seconds` is how long an answer may take, besides the time that a call asks to wait for news."""
        self.access = access
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._random = random.Random()  # noqa: S311  # only spreads pauses
        self._transport = Transport(access.endpoint, ca_bundle=access.ca_bundle)

    def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()

    def read(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        document: object = None,
        repeatable: bool | None = None,
        wait_seconds: float = 0.0,
    ) -> T:
        """Call, and read the answer as `kind`. Raises as `call`."""
        reply = self.call(
            method, path, query=query, document=document, repeatable=repeatable, wait_seconds=wait_seconds
        )
        return self.decode(reply, kind)

    def pages(
        self, kind: type[P], path: str, query: Mapping[str, str] | None = None, *, parameter: str = "page-token"
    ) -> Iterator[P]:
        """A list, part by part. `parameter` is what says where to go on."""
        # An empty token asks for the first page; without any the catalog's routes answer with all there is.
        asked = {**(query or {}), parameter: ""}
        while True:
            page = self.read(kind, "GET", path, query=asked)
            yield page
            if not page.next_page_token:
                return
            asked[parameter] = page.next_page_token

    def decode(self, reply: Reply, kind: type[T]) -> T:
        """Read an answer. Raises Unavailable for one that is something else."""
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(
                f"the answer is not what a Lakebed server gives ({error}): see that the endpoint is one, of this"
                f" version. endpoint={self.access.endpoint}",
                undecided=True,
            ) from error

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        document: object = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        wait_seconds: float = 0.0,
    ) -> Reply:
        """One call; the answer, if it is a success.

        `path` has its segments encoded. `repeatable` says whether the call does no harm when an earlier one with a lost
        answer has done its work; by default that of the method. Calls that the server refused as busy are
        repeated in any case. Raises what the server told, Unavailable when no answer came, InvalidSetting.
        """
        may_repeat = method in _SAFE if repeatable is None else repeatable
        attempt = 0
        while True:
            attempt += 1
            reply = None
            try:
                reply = self._send(method, path, query or {}, document, wait_seconds, headers)
                if 200 <= reply.status < 300:
                    return reply
                raise failure_of(reply.status, reply.body, f"{method} {path}")
            except LakebedError as error:
                if attempt >= self._attempts or not _is_worth_repeating(error, may_repeat):
                    raise
                self._sleep(self._pause_seconds(attempt, None if reply is None else reply.retry_after))

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes = b"",
        failure: Callable[[int, bytes, str], LakebedError] = s3_failure_of,
    ) -> Iterator[Iterator[bytes]]:
        """A call of S3's that changes nothing; the answer as it comes, if it is a success. Who leaves early hangs up.

        `failure` makes an error of a refusal. Raises what it made, Unavailable, InvalidSetting.
        """
        attempt = 0
        while True:
            attempt += 1
            with ExitStack() as stack:
                signed, target = self._signed(method, path, query, body, {"content-type": "application/xml"})
                refused: str | None = None
                try:
                    reply = stack.enter_context(
                        self._transport.stream(method, target, signed, body, timeout_seconds=self._timeout_seconds)
                    )
                    refused = reply.retry_after
                    if not 200 <= reply.status < 300:
                        raise failure(reply.status, b"".join(reply.pieces), f"{method} {path}")
                except LakebedError as error:
                    if attempt >= self._attempts or not _is_worth_repeating(error, may_repeat=True):
                        raise
                    self._sleep(self._pause_seconds(attempt, refused))
                    continue
                yield reply.pieces
                return

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        document: object,
        wait_seconds: float,
        further: Mapping[str, str] | None = None,
    ) -> Reply:
        body = b"" if document is None else _encode(document)
        headers = {"accept": "application/json", **(further or {})}
        if document is not None:
            headers["content-type"] = "application/json"
        signed, target = self._signed(method, path, query, body, headers)
        return self._transport.send(method, target, signed, body, timeout_seconds=self._timeout_seconds + wait_seconds)

    def _signed(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], str]:
        """The headers and the target of a request."""
        access = self.access
        sent_query = canonical_query(query.items())
        signed = signed_headers(
            method,
            host=self._transport.host,
            path=path,
            query=sent_query,
            headers={"user-agent": f"lakebed/{__version__}", **headers},
            body=body,
            region=access.region,
            service="s3",
            credentials=access,
            now_ms=self._clock.now_ms(),
        )
        return signed, f"{path}?{sent_query}" if sent_query else path

    def _pause_seconds(self, attempt: int, asked: str | None) -> float:
        """Doubling, less up to half of it by chance; no shorter than the server asks for."""
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
        pause = longest * (1 - self._random.random() / 2)
        if asked is not None and asked.isascii() and asked.isdigit():
            pause = max(pause, min(float(asked), _LONGEST_PAUSE_SECONDS))
        return pause


def _is_worth_repeating(error: LakebedError, may_repeat: bool) -> bool:
    if not error.retryable or isinstance(error, StorageFull):
        return False
    return may_repeat or not (isinstance(error, Unavailable) and error.undecided)
