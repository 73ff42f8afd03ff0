"""PostObject: uploads the file of a browser form. Its fields correspond to the headers of a PUT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from lakebed.core.access import ANONYMOUS, Principal
from lakebed.core.checksums import DEFAULT_ALGORITHM
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.config.tagging import format_tag_query
from lakebed.objects.model import Caller
from lakebed.objects.writing import NewObject, WrittenObject
from lakebed.wire.aws import sigv4
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.request_target import S3Target
from lakebed.wire.http.message import Request, Response

from ..condition_context import form_condition_keys
from ..documents.objects import write_post
from ..documents.tagging import read_object_tagging
from ..form import FormFile, FormReader
from ..object_headers import read_attributes, wants_encryption, write_conditions
from ..payload import declared_checksum, parse_content_md5
from ..post_policy import ANY_SIZE, SizeRange, parse_post_policy
from ..request import S3Request, log_principal
from ..services import S3Services
from ..xml import url_encode
from .objects import written_headers

__all__ = ["post_object"]

_SIGNED: Final = ("policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature")
_SIGNATURE_FIELDS: Final = frozenset({*_SIGNED, "x-amz-security-token"})
_SIGNATURE_V2_FIELDS: Final = ("awsaccesskeyid", "signature")
_HEADER_FIELDS: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        "expires",
        "if-match",
        "if-none-match",
    }
)
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_STATUSES: Final = {"200": 200, "201": 201}
_URL_CHARACTERS: Final = frozenset(map(chr, range(0x21, 0x7F))) - frozenset('"<>\\^`{|}')


async def post_object(services: S3Services, request: S3Request) -> Response:
    """PostObject: store the file of a form, as the signer of its policy, or as an anonymous caller without one."""
    reader = FormReader(request.headers.get("content-type"), request.http.body)
    if request.authenticated.is_signed:
        raise AwsFault(
            400, "InvalidRequest", "A form is authenticated by its own fields, not by the headers of the request."
        )
    # Before the form is read. The fields before the file, up to 20 KiB, authenticate the caller.
    await services.buckets.find(request.bucket)
    form = await reader.read()
    if "key" not in form.fields:
        raise _missing("key")
    file = form.file
    if file is None:
        raise AwsFault(
            400,
            "InvalidArgument",
            "POST requires exactly one file upload per request.",
            ArgumentName="file",
            ArgumentValue="0",
        )
    # Conditions apply to the object that is stored: with the file name in its key, and the bucket of the request.
    key = form.fields["key"].replace("${filename}", file.filename)
    fields = {**form.fields, "key": key, "bucket": request.bucket}
    principal, size = await _authenticate(services, fields)
    # The caller and the key are known only from the form.
    log_principal(request.http, principal)
    request.key = key

    headers = _object_headers(fields)
    signed_at = None if principal.is_anonymous else sigv4.parse_amz_date(fields["x-amz-date"])
    caller = _caller(services, request, principal, headers, signed_at)
    put = _put_request(request, key, headers, caller)
    attributes = read_attributes(put, services.clock.now_ms())
    new = NewObject(key, attributes, wants_encryption(put), write_conditions(put))
    algorithm, checksum = declared_checksum(put.http)
    expected = ExpectedDigests(
        md5=parse_content_md5(headers.get("content-md5")), algorithm=algorithm or DEFAULT_ALGORITHM, checksum=checksum
    )
    written = await services.writer.put(
        caller, request.bucket, new, _SizedFile(file, size), expected, event="ObjectCreated:Post"
    )
    return _response(services, request, fields, written)


class _SizedFile:
    """Enforces the allowed size of a file while it is read."""

    __slots__ = ("_file", "_range", "_size")

    def __init__(self, file: FormFile, allowed: SizeRange) -> None:
        self._file = file
        self._range = allowed
        self._size = 0

    @property
    def length(self) -> int | None:
        return self._file.length

    async def next_chunk(self) -> bytes | memoryview | None:
        chunk = await self._file.next_chunk()
        if chunk is None:
            self._range.check_whole(self._size)
        else:
            self._size += len(chunk)
            self._range.check_so_far(self._size)
        return chunk


async def _authenticate(services: S3Services, fields: Mapping[str, str]) -> tuple[Principal, SizeRange]:
    """The signer of the form, and the allowed file size. Raises AwsFault unless signature and policy match the form."""
    if any(name in fields for name in _SIGNATURE_V2_FIELDS):
        raise AwsFault(
            400,
            "InvalidRequest",
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
        )
    if not any(name in fields for name in _SIGNATURE_FIELDS):
        return ANONYMOUS, ANY_SIZE
    for name in _SIGNED:
        if name not in fields:
            raise _missing(name)
    if fields["x-amz-algorithm"] != sigv4.ALGORITHM:
        raise AwsFault(
            400,
            "InvalidArgument",
            f"Only {sigv4.ALGORITHM} is supported",
            ArgumentName="X-Amz-Algorithm",
            ArgumentValue=fields["x-amz-algorithm"][:100],
        )
    principal = await services.authenticator.verify_form(
        fields["x-amz-credential"],
        fields["x-amz-date"],
        fields["x-amz-signature"],
        fields["policy"],
        fields.get("x-amz-security-token"),
    )
    policy = parse_post_policy(fields["policy"])
    policy.check(fields, services.clock.now_ms())
    return principal, policy.size


def _object_headers(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields that describe the object, as headers. Raises AwsFault, MalformedDocument, InvalidTag."""
    headers: dict[str, str] = {}
    for name, value in fields.items():
        if name not in _HEADER_FIELDS and (not name.startswith("x-amz-") or name in _SIGNATURE_FIELDS):
            continue
        # Later responses contain them as headers: a line break could inject another header.
        if not _TOKEN.issuperset(name) or any((c < " " and c != "\t") or c == "\x7f" for c in value):
            raise AwsFault(
                400, "InvalidArgument", "The field cannot be represented as a header.", ArgumentName=name[:100]
            )
        headers[name] = value
    if "acl" in fields:
        headers["x-amz-acl"] = fields["acl"]
    if "tagging" in fields:
        headers["x-amz-tagging"] = format_tag_query(read_object_tagging(fields["tagging"].encode()))
    return headers


def _caller(
    services: S3Services, request: S3Request, principal: Principal, headers: Mapping[str, str], signed_at: int | None
) -> Caller:
    """The signer as the caller, with the condition keys of the form."""
    of_request = request.caller.conditions
    return request.caller._replace(
        principal=principal,
        conditions=lambda: form_condition_keys(of_request(), headers, signed_at, services.clock.now_ms()),
    )


def _put_request(request: S3Request, key: str, headers: dict[str, str], caller: Caller) -> S3Request:
    """The equivalent PUT request."""
    http = request.http
    put = Request(
        "PUT", http.raw_path, "", headers, http.body, scheme=http.scheme, peer=http.peer, request_id=http.request_id
    )
    return S3Request(put, S3Target(request.bucket, key), request.authenticated, caller)


def _response(services: S3Services, request: S3Request, fields: Mapping[str, str], written: WrittenObject) -> Response:
    stored = written.object
    headers = written_headers(services, written)
    redirect = _redirect_target(fields.get("success_action_redirect") or fields.get("redirect", ""))
    if redirect is not None:
        query = f"bucket={quote(request.bucket, safe='')}&key={quote(stored.key, safe='')}&etag=%22{stored.etag}%22"
        parts = urlsplit(redirect)
        headers.append(
            ("Location", urlunsplit(parts._replace(query=f"{parts.query}&{query}" if parts.query else query)))
        )
        return Response(303, headers)
    http = request.http
    # The path is that of the bucket, or `/` for virtual-host-style requests.
    location = f"{http.scheme}://{http.headers.get('host', '')}{http.raw_path.rstrip('/')}/{url_encode(stored.key)}"
    headers.append(("Location", location))
    status = _STATUSES.get(fields.get("success_action_status", ""), 204)
    if status != 201:
        return Response(status, headers)
    headers.append(("Content-Type", "application/xml"))
    return Response(status, headers, write_post(location, request.bucket, stored.key, stored.etag))


def _redirect_target(url: str) -> str | None:
    """The URL if it is a valid HTTP URL; S3 ignores others."""
    if not _URL_CHARACTERS.issuperset(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and parts.hostname else None


def _missing(name: str) -> AwsFault:
    return AwsFault(
        400,
        "InvalidArgument",
        f"Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields.",
        ArgumentName=name,
        ArgumentValue="",
    )
