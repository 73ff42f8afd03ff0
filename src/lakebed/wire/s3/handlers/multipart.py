"""CreateMultipartUpload, UploadPart, UploadPartCopy, CompleteMultipartUpload, AbortMultipartUpload, ListParts."""

from __future__ import annotations

from dataclasses import replace

from lakebed.core.checksums import (
    DEFAULT_ALGORITHM,
    ChecksumAlgorithm,
    ChecksumType,
    parse_type,
    resolve_type,
)
from lakebed.core.errors import InvalidInput, InvalidRange
from lakebed.core.json.parsing import parse_body
from lakebed.objects.blobs.contents import ByteRange
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.model import MAX_PARTS, StoredUpload
from lakebed.objects.multipart import Completion, ListedPart
from lakebed.objects.writing import NewObject
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.aws.sigv4 import sha256_hex
from lakebed.wire.http.message import Headers, Response

from ..documents.multipart import (
    PartRow,
    read_completion,
    write_completion,
    write_initiation,
    write_part_copy,
    write_part_list,
)
from ..object_headers import checksum_headers, encryption_headers, read_attributes, wants_encryption, write_conditions
from ..payload import LIST_BYTES, declared_checksum, open_payload, reject_streaming
from ..request import S3Request
from ..services import S3Services
from .copy_object import check_source_owner, read_copy_source, requested_algorithm
from .listings import MAX_PAGE, owner_of, xml_response


async def create_upload(services: S3Services, request: S3Request) -> Response:
    """CreateMultipartUpload."""
    algorithm, checksum_type = requested_algorithm(request), None
    kind = request.headers.get("x-amz-checksum-type")
    if algorithm is not None:
        requested = None if kind is None else _read_type(kind)
        try:
            checksum_type = resolve_type(algorithm, requested)
        except InvalidInput as error:
            raise AwsFault(
                400,
                "InvalidRequest",
                f"The {requested} checksum type cannot be used with the {algorithm.lower()} checksum algorithm.",
            ) from error
    elif kind is not None:
        _read_type(kind)
        raise AwsFault(
            400,
            "InvalidRequest",
            "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
        )
    new = NewObject(request.key, read_attributes(request, services.clock.now_ms()), wants_encryption(request))
    _, upload = await services.uploads.begin(
        request.caller, request.bucket, new, algorithm=algorithm, checksum_type=checksum_type
    )
    response = xml_response(write_initiation(request.bucket, request.key, upload.id))
    response.headers += encryption_headers(upload.attributes.object.encrypted)
    if algorithm is not None and checksum_type is not None:
        response.headers.append(("x-amz-checksum-algorithm", algorithm.value))
        response.headers.append(("x-amz-checksum-type", checksum_type.value))
    return response


def _read_type(text: str) -> ChecksumType:
    try:
        return parse_type(text)
    except InvalidInput as error:
        raise AwsFault(400, "InvalidRequest", "Value for x-amz-checksum-type header is invalid.") from error


def _upload_target(request: S3Request) -> tuple[str, int]:
    text = request.query.get("partNumber", "")
    number = whole_number(text)
    if number is None or not 1 <= number <= MAX_PARTS:
        raise InvalidInput(
            "Part number must be an integer between 1 and 10000, inclusive.", argument="partNumber", value=text
        )
    return request.query.get("uploadId", ""), number


async def upload_part(services: S3Services, request: S3Request) -> Response:
    """UploadPart."""
    upload_id, number = _upload_target(request)
    _, upload = await services.uploads.authorize_part(request.caller, request.bucket, request.key, upload_id, number)
    payload, expected = open_payload(request)
    expected = _digests_for_upload(upload, request, expected)
    ingested, checksum = await services.uploads.put_part(upload, number, payload, expected)
    headers: Headers = [("ETag", f'"{ingested.etag}"'), *checksum_headers(checksum)[:1]]
    return Response(200, headers + encryption_headers(upload.attributes.object.encrypted))


def _digests_for_upload(upload: StoredUpload, request: S3Request, expected: ExpectedDigests) -> ExpectedDigests:
    """The expected digests of a part, with the algorithm of its upload or the default one. Raises AwsFault."""
    declared: ChecksumAlgorithm | None
    if expected.trailing_checksum is not None:
        declared = expected.algorithm
    else:
        declared, _ = declared_checksum(request.http)
    attributes = upload.attributes
    if not attributes.checksum_algorithm:
        if declared in (None, DEFAULT_ALGORITHM):
            return expected
        # The object gets the default checksum, computed from those of its parts.
        return replace(expected, algorithm=DEFAULT_ALGORITHM, declared_algorithm=declared)
    wanted = ChecksumAlgorithm(attributes.checksum_algorithm)
    if declared is None and attributes.checksum_kind == ChecksumType.FULL_OBJECT:
        return replace(expected, algorithm=wanted)
    if declared is not wanted:
        raise AwsFault(
            400,
            "InvalidRequest",
            f"Checksum Type mismatch occurred, expected checksum Type: {wanted}, actual checksum Type:"
            f" {declared or 'null'}",
        )
    return expected


async def upload_part_copy(services: S3Services, request: S3Request) -> Response:
    """UploadPartCopy."""
    upload_id, number = _upload_target(request)
    await services.buckets.find(request.bucket)
    source = read_copy_source(request)
    wanted = _copy_range(request)
    await check_source_owner(services, request, source)
    _, upload = await services.uploads.authorize_part(request.caller, request.bucket, request.key, upload_id, number)
    try:
        ingested, checksum, version = await services.copier.copy_part(request.caller, source, wanted, upload, number)
    except InvalidRange as error:
        raise AwsFault(
            400,
            "InvalidArgument",
            f"Range specified is not valid for source object of size: {error.size}",
            ArgumentName="x-amz-copy-source-range",
            ArgumentValue=request.headers.get("x-amz-copy-source-range", ""),
        ) from error
    shown = checksum if upload.attributes.checksum_algorithm else None
    response = xml_response(write_part_copy(ingested.etag, services.clock.now_ms(), shown))
    response.headers += encryption_headers(upload.attributes.object.encrypted)
    if version is not None:
        response.headers.append(("x-amz-copy-source-version-id", version))
    return response


def _copy_range(request: S3Request) -> ByteRange | None:
    """Parse `x-amz-copy-source-range`, which must be `bytes=first-last`. Raises InvalidInput."""
    text = request.headers.get("x-amz-copy-source-range")
    if text is None:
        return None
    stated_first, _, stated_last = text.removeprefix("bytes=").partition("-")
    first, last = whole_number(stated_first), whole_number(stated_last)
    if text.startswith("bytes=") and first is not None and last is not None and first <= last:
        return ByteRange(first, last + 1)
    raise InvalidInput(
        "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the"
        " zero-based offsets of the first and last bytes to copy",
        argument="x-amz-copy-source-range",
        value=text,
    )


async def complete_upload(services: S3Services, request: S3Request) -> Response:
    """CompleteMultipartUpload."""
    await services.uploads.authorize(request.caller, request.bucket, request.key)
    listed = await parse_body(read_completion, await _completion_body(request))
    parts = [ListedPart(part.number, part.etag, part.checksum) for part in listed]
    stated_size = request.headers.get("x-amz-mp-object-size")
    size = None if stated_size is None else whole_number(stated_size)
    if stated_size is not None and size is None:
        wrong = "is less than zero" if stated_size.startswith("-") else "is invalid"
        raise AwsFault(400, "InvalidRequest", f"Value for x-amz-mp-object-size header {wrong}: '{stated_size[:50]}'")
    kind = request.headers.get("x-amz-checksum-type")
    _, checksum = declared_checksum(request.http)
    completion = Completion(
        parts,
        write_conditions(request),
        checksum,
        None if kind is None else _read_type(kind),
        size,
    )
    try:
        done = await services.uploads.complete(
            request.caller, request.bucket, request.key, request.query.get("uploadId", ""), completion
        )
    except InvalidInput as error:
        problem = _completion_problem(error, completion)
        if problem is None:
            raise
        raise AwsFault(400, "InvalidRequest", problem) from error
    location = f"{request.http.scheme}://{request.headers.get('host', '')}/{request.bucket}/{request.key}"
    response = xml_response(write_completion(location, request.bucket, request.key, done.etag, done.checksum))
    if done.version is not None:
        response.headers.append(("x-amz-version-id", done.version))
    response.headers += encryption_headers(done.encrypted)
    return response


def _completion_problem(error: InvalidInput, completion: Completion) -> str | None:
    """S3's message for a completion that does not match its upload; None for other errors."""
    argument = error.argument or ""
    if argument == "x-amz-mp-object-size":
        return (
            f"The provided 'x-amz-mp-object-size' header value {completion.object_size} does not match what was"
            f" computed: {error.value}"
        )
    if argument == "x-amz-checksum-type":
        return (
            f"The upload was created using the {error.value} checksum mode. The complete request must use the same"
            " checksum mode."
        )
    if argument.startswith("Checksum"):
        return (
            f"The upload was created using a {argument.removeprefix('Checksum').lower()} checksum. The complete request"
            f" must include the checksum for each part. It was missing for part {error.value} in the request."
        )
    return None


async def _completion_body(request: S3Request) -> bytes:
    """Read the list of parts. Checksum headers are not checked: they apply to the object, not to this document."""
    reject_streaming(request.authenticated)
    body = await request.http.body.read(LIST_BYTES)
    claim = request.authenticated.payload.sha256
    if claim is not None and await parse_body(sha256_hex, body) != claim:
        raise AwsFault(
            400,
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )
    return body


async def abort_upload(services: S3Services, request: S3Request) -> Response:
    """AbortMultipartUpload."""
    started_ms = request.time_header("x-amz-if-match-initiated-time")
    if started_ms is not None and started_ms > services.clock.now_ms():
        started_ms = None  # dates in the future are ignored, as in HTTP
    upload_id = request.query.get("uploadId", "")
    await services.uploads.abort(request.caller, request.bucket, request.key, upload_id, started_ms=started_ms)
    return Response(204)


async def list_parts(services: S3Services, request: S3Request) -> Response:
    """ListParts."""
    marker = request.integer("part-number-marker", 0, maximum=2**31 - 1)
    limit = request.integer("max-parts", MAX_PAGE, maximum=MAX_PAGE)
    view = await services.uploads.parts(
        request.caller, request.bucket, request.key, request.query.get("uploadId", ""), after=marker, limit=limit
    )
    attributes = view.upload.attributes
    # Without an algorithm of the client's choice, checksums of the default algorithm are not returned.
    shown = bool(attributes.checksum_algorithm)
    rows = [
        PartRow(part.number, part.size, part.etag, part.modified_ms, part.checksum if shown else None)
        for part in view.parts
    ]
    body = write_part_list(
        request.bucket,
        request.key,
        view.upload.id,
        rows,
        part_number_marker=marker,
        max_parts=limit,
        is_truncated=view.truncated,
        owner=owner_of(view.bucket.owner),
        checksum_algorithm=attributes.checksum_algorithm or None,
        checksum_type=attributes.checksum_kind or None,
    )
    return xml_response(body)
