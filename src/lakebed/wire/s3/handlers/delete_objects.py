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
"""Largest list of an anonymous caller: 1,000 keys of maximum length."""


async def delete_objects(services: S3Services, request: S3Request) -> Response:
    """DeleteObjects: up to 1,000 keys, each of which succeeds or fails alone."""
    anonymous = request.caller.principal.is_anonymous
    if anonymous:
        await services.buckets.precheck(request.caller, request.bucket, *_ACTIONS)
    else:
        # Authenticated callers without permission get an error for each key, as in S3.
        await services.buckets.find(request.bucket)
    _require_digest(request)
    limit = _ANONYMOUS_BYTES if anonymous else LIST_BYTES
    deletion = await read_parsed(request, read_deletion, limit)
    identifiers = [_identifier(item) for item in deletion.objects]
    outcomes = await services.deleter.delete_many(request.caller, request.bucket, identifiers)
    if anonymous:
        _deny_if_all_denied(outcomes)
    deleted: list[DeletedRow] = []
    failed: list[FailedRow] = []
    for one, outcome in zip(identifiers, outcomes, strict=True):
        if isinstance(outcome, DeletedObject):
            if not deletion.is_quiet:
                deleted.append(DeletedRow(outcome.key, outcome.version, outcome.marker is not None, outcome.marker))
        else:
            failed.append(_failed(one, outcome))
    return xml_response(write_deletion(deleted, failed))


def _deny_if_all_denied(outcomes: Sequence[DeletedObject | LakebedError]) -> None:
    """Deny the request of an anonymous caller without permission for any of its keys. Raises AccessDenied."""
    denials = [outcome for outcome in outcomes if isinstance(outcome, AccessDenied)]
    if denials and len(denials) == len(outcomes):
        raise denials[0]


def _identifier(item: ObjectToDelete) -> ObjectIdentifier:
    if item.etag is None and item.size is None and item.modified_ms is None:
        return ObjectIdentifier(item.key, item.version_id, NO_WRITE_CONDITIONS)
    return ObjectIdentifier(item.key, item.version_id, WriteConditions(item.etag, None, item.size, item.modified_ms))


def _failed(one: ObjectIdentifier, error: LakebedError) -> FailedRow:
    rendered = render_error(error)
    return FailedRow(one.key, one.version, rendered.code, rendered.message)


def _require_digest(request: S3Request) -> None:
    """Require a digest, so that a corrupted list deletes nothing. Raises AwsFault."""
    headers = request.headers
    if "content-md5" in headers or "x-amz-trailer" in headers or any(name in headers for name in CHECKSUM_HEADERS):
        return
    if request.authenticated.payload.sha256 is not None:
        # The signature covers the document.
        return
    raise AwsFault(400, "InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
