"""A listener over HTTP: a signed POST request whose response allows or vetoes the operation.

The signature is that of webhooks (`lakebed.core.webhooks`). A valid response is 200 with `{"allow": true}` or
`{"allow": false, "reason": "…"}`.
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
    """Configuration of a hook."""

    url: str
    secret: Secret
    operations: frozenset[Operation]
    timeout_seconds: float = 5.0
    on_failure: HookFailure = HookFailure.REFUSE
    sends_documents: bool = False
    """Whether to send the request document: schemas, properties, updates of a commit."""


class HttpHook:
    """Calls a hook."""

    __slots__ = ("_clock", "_http", "_policy", "name", "operations")

    def __init__(self, name: str, policy: HookConfig, http: Http, clock: Clock) -> None:
        self.name = name
        self.operations = policy.operations
        self._policy = policy
        self._http = http
        self._clock = clock

    async def before(self, intent: Intent) -> str | None:
        """The veto reason, or None. Raises Unavailable if the hook fails, unless failures are configured to allow.

        Raises InvalidInput if the request document is not JSON.
        """
        try:
            verdict = await self._call(intent)
        except (Unavailable, InvalidSetting) as error:
            if self._policy.on_failure is HookFailure.ALLOW:
                log.warning("hook failed; the operation proceeds", extra={"hook": self.name}, exc_info=error)
                return None
            raise Unavailable(
                f"hook {self.name} did not respond; nothing was done. operation={intent.operation} reason={error}"
            ) from error
        return None if verdict.allow else verdict.reason

    async def _call(self, intent: Intent) -> _Verdict:
        policy = self._policy
        content = intent.described()
        if policy.sends_documents and intent.document:
            content["document"] = _parsed(intent.document)
        body = _encode(content)
        headers = {"Content-Type": "application/json", "User-Agent": "lakebed"}
        headers |= signed_headers(policy.secret, intent.event_id, self._clock.now_ms(), body)
        response = await self._http(
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
        if response.status != 200:
            raise Unavailable(f"responded with {response.status}")
        try:
            return _decoder.decode(response.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Unavailable("the response is not a verdict") from error


def _parsed(document: bytes) -> Any:  # Any: JSON
    """Parse the client's document: inserted unparsed, it could inject fields into the server's request."""
    try:
        return msgspec.json.decode(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the request document is not valid JSON: {error}") from error
