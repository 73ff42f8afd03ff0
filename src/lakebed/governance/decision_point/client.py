"""Client of a decision point: single and batch queries, and a cache of decisions.

Only a clear yes allows. Without a response the request fails as unavailable, not as denied, because there is no
decision.

A decision is cached by the entire query. Any change on this server (the caller's roles, the target, the address) makes
a new query; changes of the decision point's policies take effect when the cached decision expires.
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
"""Decisions cached per process. The oldest are evicted first."""

BATCH: Final = 2_000
"""Targets per batch query."""

CONCURRENCY: Final = 32
"""Concurrent queries per process. Further ones wait, at most for the timeout of a response."""

MAX_RESPONSE_BYTES: Final = 1024 * 1024

Post = Callable[[bytes], Awaitable[HttpResponse]]
"""Sends a document. Raises Unavailable."""


class DecisionEndpoint:
    """Posts documents to one URL of a decision point.

    Connections are kept alive. Queries have no side effects, so a query on a closed connection is sent once more.
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
        """The response to a document. Raises Unavailable if none arrives in time."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        request = HttpRequest("POST", self._url, headers, body, self._timeout, max_response_bytes=MAX_RESPONSE_BYTES)
        try:
            return await self._http.send(request)
        except HttpFailure as failure:
            host = split_url(self._url).host
            if isinstance(failure.error, TimeoutError):
                raise Unavailable(f"no response in time. host={host} seconds={self._timeout:g}") from None
            raise Unavailable(f"no response. host={host} reason={failure}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


class _Result(msgspec.Struct):
    # Any: policies can return any type.
    result: Any = None


_decode: Final = msgspec.json.Decoder(_Result).decode


class DecisionPoint:
    """Queries a decision point, with a cache."""

    def __init__(self, post: Post, clock: Clock, *, cache_seconds: float, post_batch: Post | None = None) -> None:
        self._post = post
        self._post_batch = post_batch
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._cache: OrderedDict[DecisionQuery, tuple[float, bool]] = OrderedDict()
        self._in_flight: dict[DecisionQuery, asyncio.Future[bool]] = {}

    @property
    def supports_batches(self) -> bool:
        """Whether it accepts batch queries."""
        return self._post_batch is not None

    async def allows(self, query: DecisionQuery, request_id: str) -> bool:
        """Whether it allows the request. Raises Unavailable without a decision."""
        cached = self._cache.get(query)
        if cached is not None:
            if self._clock.monotonic() < cached[0]:
                return cached[1]
            del self._cache[query]
        pending = self._in_flight.get(query)
        if pending is None:
            # Equal concurrent queries share one request, even if the first caller is cancelled.
            pending = asyncio.ensure_future(self._decide(query, request_id))
            self._in_flight[query] = pending
            pending.add_done_callback(lambda done: self._finish(query, done))
        return await asyncio.shield(pending)

    async def visible(
        self, query: DecisionQuery, targets: Sequence[AccessTarget], request_id: str
    ) -> list[AccessTarget]:
        """The visible targets among those given. Raises Unavailable without a decision."""
        visible: list[AccessTarget] = []
        for start in range(0, len(targets), BATCH):
            batch = targets[start : start + BATCH]
            result = await self._result(self._post_batch or self._post, batch_document(query, batch, request_id))
            indexes = () if result is None else result
            if not isinstance(indexes, list | tuple) or not all(type(index) is int for index in indexes):
                raise self._invalid("an array of indexes")
            allowed = frozenset(indexes)
            visible += [target for index, target in enumerate(batch) if index in allowed]
        return visible

    async def _decide(self, query: DecisionQuery, request_id: str) -> bool:
        # From before the query: the decision may be as old as that.
        valid_until = self._clock.monotonic() + self._cache_seconds
        allowed = self._allowed(await self._result(self._post, decision_document(query, request_id)))
        if self._cache_seconds:
            self._cache[query] = (valid_until, allowed)
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return allowed

    def _finish(self, query: DecisionQuery, done: asyncio.Future[bool]) -> None:
        del self._in_flight[query]
        if not done.cancelled():
            # Callers get the exception. If all were cancelled, this prevents a warning that it was never retrieved.
            done.exception()

    def _allowed(self, result: object) -> bool:
        """A policy result: a boolean, or an object with a boolean `allow`. Undefined means no."""
        if isinstance(result, dict):
            result = result.get("allow")
        if result is not None and not isinstance(result, bool):
            raise self._invalid("true, false or an object with `allow`")
        return result is True

    async def _result(self, post: Post, body: bytes) -> object:
        response = await post(body)
        if response.status != 200:
            raise Unavailable(f"the decision point responded with {response.status}")
        try:
            return _decode(response.body).result
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unavailable("invalid response of the decision point") from error

    def _invalid(self, expected: str) -> Unavailable:
        return Unavailable(f"invalid response of the decision point. expected={expected}")
