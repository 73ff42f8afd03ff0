"""Asking a decision point: one question at a time or many targets at once, and remembering what it said for a moment.

Whatever is not a clear yes is a no. Without an answer there is no decision, so that nothing is allowed: the caller is
told that the server cannot serve it now, which is true, and not that it may not, which nobody has said.

An answer is remembered by all that the question was made of. Whatever changes on this side (the roles of a caller, the
thing that a name means, the address it calls from) is another question; what changes on the other side is seen after
the time that the settings give.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from lakebed.core.access import AccessTarget
from lakebed.core.clock import Clock
from lakebed.core.errors import Unavailable
from lakebed.core.secrets import Secret
from lakebed.net.async_client import AsyncHttpClient
from lakebed.net.http import HttpFailure, HttpRequest, HttpResponse, split_url
from lakebed.net.tls import TlsFiles

from .decision_input import DecisionQuery, batch_document, decision_document

log = logging.getLogger("lakebed.decisions")

MAX_CACHED: Final = 16_384
"""Answers kept in a process. The oldest go first."""

BATCH: Final = 2_000
"""Targets asked about in one document."""

CONCURRENCY: Final = 32
"""Questions under way at once in one process. Further ones wait their turn, and not longer than for an answer."""

MAX_RESPONSE_BYTES: Final = 1024 * 1024

Post = Callable[[bytes], Awaitable[HttpResponse]]
"""Sends a document. Raises Unavailable."""


class DecisionEndpoint:
    """Posts documents to one URL of a decision point.

    Connections stay open for as long as the decision point keeps them. A question changes nothing, so one that finds
    its connection closed is sent once more.
    """

    def __init__(
        self, url: str, *, timeout_seconds: float, token: Secret | None = None, ca_bundle: str | None = None
    ) -> None:
        self._url = url
        self._timeout = timeout_seconds
        self._token = token
        self._http = AsyncHttpClient(
            TlsFiles(ca_bundle),
            max_idle=CONCURRENCY,
            idle_seconds=math.inf,
            max_concurrency=CONCURRENCY,
            resends=True,
        )

    async def post(self, body: bytes) -> HttpResponse:
        """The response to a document. Raises Unavailable when none arrives in time."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        request = HttpRequest("POST", self._url, headers, body, self._timeout, max_response_bytes=MAX_RESPONSE_BYTES)
        try:
            return await self._http.send(request)
        except HttpFailure as failure:
            host = split_url(self._url).host
            if isinstance(failure.error, TimeoutError):
                raise Unavailable(f"no answer in time. host={host} seconds={self._timeout:g}") from None
            raise Unavailable(f"no answer. host={host} reason={failure}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


class _Result(msgspec.Struct):
    # Any: what a policy yields is what its author made of it.
    result: Any = None


_decode: Final = msgspec.json.Decoder(_Result).decode


class DecisionPoint:
    """Asks somebody else."""

    def __init__(self, post: Post, clock: Clock, *, remember_seconds: float, post_batch: Post | None = None) -> None:
        self._post = post
        self._post_batch = post_batch
        self._clock = clock
        self._remember = remember_seconds
        self._known: OrderedDict[DecisionQuery, tuple[float, bool]] = OrderedDict()
        self._asking: dict[DecisionQuery, asyncio.Future[bool]] = {}

    @property
    def answers_batches(self) -> bool:
        """Whether it can be asked about many targets at once."""
        return self._post_batch is not None

    async def allows(self, asked: DecisionQuery, request_id: str) -> bool:
        """Whether it allows that. Raises Unavailable when it does not say."""
        known = self._known.get(asked)
        if known is not None:
            if self._clock.monotonic() < known[0]:
                return known[1]
            del self._known[asked]
        asking = self._asking.get(asked)
        if asking is None:
            # Whoever asks the same meanwhile waits for the same answer, whatever becomes of who asked first.
            asking = asyncio.ensure_future(self._ask(asked, request_id))
            self._asking[asked] = asking
            asking.add_done_callback(lambda done: self._finish(asked, done))
        return await asyncio.shield(asking)

    async def visible(
        self, asked: DecisionQuery, targets: Sequence[AccessTarget], request_id: str
    ) -> list[AccessTarget]:
        """Those of the targets that it shows. Raises Unavailable when it does not say."""
        shown: list[AccessTarget] = []
        for start in range(0, len(targets), BATCH):
            some = targets[start : start + BATCH]
            result = await self._result(self._post_batch or self._post, batch_document(asked, some, request_id))
            indexes = () if result is None else result
            if not isinstance(indexes, list | tuple) or not all(type(index) is int for index in indexes):
                raise self._unreadable("an array of indexes")
            wanted = frozenset(indexes)
            shown += [target for index, target in enumerate(some) if index in wanted]
        return shown

    async def _ask(self, asked: DecisionQuery, request_id: str) -> bool:
        # The time before the question: it is answered as things were then, or later.
        good_until = self._clock.monotonic() + self._remember
        allowed = self._allowed(await self._result(self._post, decision_document(asked, request_id)))
        if self._remember:
            self._known[asked] = (good_until, allowed)
            if len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)
        return allowed

    def _finish(self, asked: DecisionQuery, done: asyncio.Future[bool]) -> None:
        del self._asking[asked]
        if not done.cancelled():
            # Whoever waited is told. Where nobody does any more, it is no fault that nobody looks.
            done.exception()

    def _allowed(self, result: object) -> bool:
        """What a policy yielded: a truth value, or an object with one under `allow`. What is undefined is a no."""
        if isinstance(result, dict):
            result = result.get("allow")
        if result is not None and not isinstance(result, bool):
            raise self._unreadable("true, false or an object with `allow`")
        return result is True

    async def _result(self, post: Post, question: bytes) -> object:
        answer = await post(question)
        if answer.status != 200:
            raise Unavailable(f"the decision point answered {answer.status}")
        try:
            return _decode(answer.body).result
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unavailable("the decision point's answer cannot be read") from error

    def _unreadable(self, expected: str) -> Unavailable:
        return Unavailable(f"the decision point's answer cannot be read. expected={expected}")
