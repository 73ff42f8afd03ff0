"""A listener over HTTP: asked by a signed POST, answers whether the operation may happen.

The request is signed as webhooks are (`lakebed.core.webhooks`), so that whoever answers knows who asks. It answers 200
with `{"allow": true}`, or with `{"allow": false, "reason": "…"}`. Anything else is no answer.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, InvalidSetting, Unavailable
from lakebed.core.operations import Operation
from lakebed.core.secrets import Secret
from lakebed.core.settings import HookFailure
from lakebed.core.webhooks import signed_headers
from lakebed.net.http import Http, HttpRequest

from .model import Intent

log = logging.getLogger("lakebed.governance")

_MAX_RESPONSE_BYTES = 64 * 1024


class _Verdict(msgspec.Struct):
    allow: bool
    reason: str = ""


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(_Verdict)


@dataclass(frozen=True, slots=True)
class HookConfig:
    """Where a hook is, and how it is asked."""

    url: str
    secret: Secret
    operations: frozenset[Operation]
    timeout_seconds: float = 5.0
    on_failure: HookFailure = HookFailure.REFUSE
    sends_documents: bool = False
    """Whether it is shown the request's own document: schemas, properties, the updates of a commit."""


class HttpHook:
    """Asks over the network."""

    __slots__ = ("_clock", "_http", "_policy", "name", "operations")

    def __init__(self, name: str, policy: HookConfig, http: Http, clock: Clock) -> None:
        self.name = name
        self.operations = policy.operations
        self._policy = policy
        self._http = http
        self._clock = clock

    async def before(self, intent: Intent) -> str | None:
        """What it answers. Raises Unavailable when it does not, unless operations happen all the same then.

        Raises InvalidInput for a request whose document is none.
        """
        try:
            verdict = await self._ask(intent)
        except (Unavailable, InvalidSetting) as error:
            if self._policy.on_failure is HookFailure.ALLOW:
                log.warning("a hook did not answer; the operation goes on", extra={"hook": self.name}, exc_info=error)
                return None
            raise Unavailable(
                f"hook {self.name} did not answer; nothing was done. operation={intent.operation} reason={error}"
            ) from error
        return None if verdict.allow else verdict.reason

    async def _ask(self, intent: Intent) -> _Verdict:
        policy = self._policy
        told = intent.described()
        if policy.sends_documents and intent.document:
            told["document"] = _read(intent.document)
        body = _encode(told)
        headers = {"Content-Type": "application/json", "User-Agent": "lakebed"}
        headers |= signed_headers(policy.secret, intent.event_id, self._clock.now_ms(), body)
        answer = await self._http(
            HttpRequest(
                "POST",
                policy.url,
                headers,
                body,
                policy.timeout_seconds,
                through_proxy=True,
                max_response_bytes=_MAX_RESPONSE_BYTES,
            )
        )
        if answer.status != 200:
            raise Unavailable(f"answered {answer.status}")
        try:
            return _decoder.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Unavailable("answered something else than a verdict") from error


def _read(document: bytes) -> Any:  # Any: JSON
    """A document of the caller's, read: as it came, it could end early and go on in the server's name."""
    try:
        return msgspec.json.decode(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the request document cannot be read: {error}") from error
