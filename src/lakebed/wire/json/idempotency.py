"""Idempotency keys: a repeated request gets the response of the first one."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from lakebed.catalog.idempotency import IdempotencyKeys, RequestKey, StoredResponse
from lakebed.core.errors import DuplicateRequest, InvalidInput, LakebedError
from lakebed.wire.http.message import RAW_ERRORS, Request, Response

from .errors import JSON, client_message, error_document, error_model

HEADER: Final = "idempotency-key"

_KEPT_STATUSES: Final = frozenset({400, 404, 406, 409, 422})
"""Errors that a repeated request would get again, so they are stored for its key."""


def request_key(http: Request, principal_arn: str, body: bytes) -> RequestKey | None:
    """The idempotency key of a request, with a digest of caller, method, target and body, which must all be repeated.

    Raises InvalidInput if the key is not a UUID.
    """
    stated = http.headers.get(HEADER)
    if stated is None:
        return None
    try:
        key = str(UUID(stated.strip()))
    except ValueError as error:
        raise InvalidInput("Idempotency-Key must be a UUID", argument="Idempotency-Key") from error
    digest = hashlib.sha256()
    for part in (principal_arn, http.method, http.raw_path, http.raw_query):
        digest.update(part.encode("utf-8", RAW_ERRORS) + b"\0")
    digest.update(body)
    return RequestKey(key, digest.hexdigest())


async def respond_once(
    keys: IdempotencyKeys,
    key: RequestKey,
    handle: Callable[[], Awaitable[Response]],
    replay: Callable[[str], Awaitable[Response]],
) -> Response:
    """Handle a request, or repeat the response of an earlier one with its key.

    `replay` creates the response for a table or view by its id.
    """
    stored = await keys.find(key)
    if stored is None:
        try:
            return await handle()
        except LakebedError as error:
            # A concurrent request with the same key may have succeeded first.
            stored = await keys.find(key)
            if stored is None:
                await _keep_error(keys, key, error)
                raise
    if stored.entry:
        return await replay(stored.entry)
    return Response(stored.status, [JSON] if stored.body else [], stored.body)


async def _keep_error(keys: IdempotencyKeys, key: RequestKey, error: LakebedError) -> None:
    model = error_model(error)
    if model.status in _KEPT_STATUSES and not isinstance(error, DuplicateRequest):
        document = error_document(model, client_message(error, model))
        await keys.store_error(key, StoredResponse(model.status, body=document))
