"""DeleteObjects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakebed.core.errors import AccessDenied, LakebedError
from lakebed.objects.conditions import NO_WRITE_CONDITIONS, WriteConditions
from lakebed.objects.deleting import DeletedObject, ObjectIdentifier
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.http.message import Response

from ..documents.deletion import DeletedRow, FailedRow, ObjectToDelete, read_deletion, write_deletion
from ..errors import render_error
from ..payload import CHECKSUM_HEADERS, LIST_BYTES, read_parsed
from ..request import S3Request
from ..services import S3Services
from .listings import xml_response

_ACTIONS: Final = ("s3:DeleteObject", "s3:DeleteObjectVersion")
_ANONYMOUS_BYTES: Final = 2 * 1024 * 1024
"""Largest list that is read of a caller without credentials: 1,000 keys of the longest kind."""


async def delete_objects(services: S3Services, request: S3Request) -> Response:
    """Delete up to 1,000 keys; each succeeds or fails alone."""
    anonymous = request.caller.principal.is_anonymous
    if anonymous:
        await services.buckets.precheck(request.caller, request.bucket, *_ACTIONS)
    else:
        # Signed callers are answered key by key, as S3 does: without any permission, with an error for each.
        await services.buckets.find(request.bucket)
    _require_digest(request)
    limit = _ANONYMOUS_BYTES if anonymous else LIST_BYTES
    deletion = await read_parsed(request.http, request.who, read_deletion, limit)
    doomed = [_doomed(item) for item in deletion.objects]
    outcomes = await services.deleter.delete_many(request.caller, request.bucket, doomed)
    if anonymous:
        _refuse_if_none_may(outcomes)
    deleted: list[DeletedRow] = []
    failed: list[FailedRow] = []
    for one, outcome in zip(doomed, outcomes, strict=True):
        if isinstance(outcome, DeletedObject):
            if not deletion.is_quiet:
                deleted.append(DeletedRow(outcome.key, outcome.version, outcome.marker is not None, outcome.marker))
        else:
            failed.append(_failed(one, outcome))
    return xml_response(write_deletion(deleted, failed))


def _refuse_if_none_may(outcomes: Sequence[DeletedObject | LakebedError]) -> None:
    """Who did not sign and may delete nothing of it is refused as a whole. Raises AccessDenied."""
    refusals = [outcome for outcome in outcomes if isinstance(outcome, AccessDenied)]
    if refusals and len(refusals) == len(outcomes):
        raise refusals[0]


def _doomed(item: ObjectToDelete) -> ObjectIdentifier:
    if item.etag is None and item.size is None and item.modified_ms is None:
        return ObjectIdentifier(item.key, item.version_id, NO_WRITE_CONDITIONS)
    return ObjectIdentifier(item.key, item.version_id, WriteConditions(item.etag, None, item.size, item.modified_ms))


def _failed(one: ObjectIdentifier, error: LakebedError) -> FailedRow:
    rendered = render_error(error)
    return FailedRow(one.key, one.version, rendered.code, rendered.message)


def _require_digest(request: S3Request) -> None:
    """A list of things to delete must not be taken from damaged bytes."""
    headers = request.headers
    if "content-md5" in headers or "x-amz-trailer" in headers or any(name in headers for name in CHECKSUM_HEADERS):
        return
    if request.who.payload.sha256 is not None:
        # Signed: the signature covers the document.
        return
    raise AwsFault(400, "InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
