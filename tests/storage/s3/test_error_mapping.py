"""Mapping of S3 error responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core import errors as e
from lakebed.core.errors import LakebedError
from lakebed.storage.error_response import ErrorResponse
from lakebed.storage.s3.error_mapping import StoreOperation, failure, failure_kind
from lakebed.storage.seam import IfAbsent, IfMatch, WriteCondition

ABSENT = IfAbsent()
MATCH = IfMatch("tag")
PUT, COMPLETE, GET, HEAD = StoreOperation.PUT, StoreOperation.COMPLETE, StoreOperation.GET, StoreOperation.HEAD

TABLE: list[tuple[int, str, StoreOperation, WriteCondition | None, type[LakebedError]]] = [
    (404, "NoSuchKey", GET, None, e.NoSuchKey),
    (404, "NoSuchBucket", GET, None, e.NoSuchBucket),
    (404, "NoSuchUpload", StoreOperation.UPLOAD_PART, None, e.NoSuchUpload),
    (404, "NoSuchVersion", GET, None, e.NoSuchVersion),
    (404, "404", HEAD, None, e.NotFound),
    (412, "PreconditionFailed", PUT, ABSENT, e.AlreadyExists),
    (412, "", PUT, ABSENT, e.AlreadyExists),
    (304, "", PUT, ABSENT, e.AlreadyExists),
    (412, "PreconditionFailed", COMPLETE, ABSENT, e.AlreadyExists),
    (500, "PreconditionFailed", COMPLETE, ABSENT, e.AlreadyExists),
    (412, "PreconditionFailed", PUT, MATCH, e.PreconditionFailed),
    (412, "PreconditionFailed", COMPLETE, MATCH, e.PreconditionFailed),
    (412, "PreconditionFailed", GET, None, e.PreconditionFailed),
    (404, "NoSuchKey", PUT, MATCH, e.PreconditionFailed),
    (404, "", PUT, MATCH, e.PreconditionFailed),
    (404, "NoSuchKey", COMPLETE, MATCH, e.PreconditionFailed),
    (404, "NoSuchBucket", PUT, MATCH, e.NoSuchBucket),
    (404, "NoSuchUpload", COMPLETE, MATCH, e.NoSuchUpload),
    (404, "NoSuchKey", PUT, ABSENT, e.NoSuchKey),
    (409, "ConditionalRequestConflict", PUT, ABSENT, e.WriteConflict),
    (409, "ConditionalRequestConflict", PUT, MATCH, e.WriteConflict),
    (409, "ConditionalRequestConflict", COMPLETE, ABSENT, e.WriteConflict),
    (409, "OperationAborted", PUT, None, e.WriteConflict),
    (409, "", PUT, ABSENT, e.WriteConflict),
    (304, "304", GET, None, e.NotModified),
    (401, "", GET, None, e.Unauthenticated),
    (403, "InvalidAccessKeyId", GET, None, e.Unauthenticated),
    (403, "SignatureDoesNotMatch", GET, None, e.Unauthenticated),
    (403, "RequestTimeTooSkewed", GET, None, e.Unauthenticated),
    (400, "ExpiredToken", PUT, ABSENT, e.CredentialsExpired),
    (403, "ExpiredToken", GET, None, e.CredentialsExpired),
    (400, "InvalidToken", GET, None, e.CredentialsExpired),
    (400, "400", HEAD, None, e.CredentialsExpired),
    (403, "AccessDenied", GET, None, e.AccessDenied),
    (403, "403", HEAD, None, e.AccessDenied),
    (503, "SlowDown", PUT, None, e.Throttled),
    (503, "ServiceUnavailable", PUT, None, e.Throttled),
    (429, "", PUT, None, e.Throttled),
    (503, "", PUT, None, e.Throttled),
    (500, "SlowDown", COMPLETE, None, e.Throttled),
    (500, "InternalError", COMPLETE, ABSENT, e.Unavailable),
    (502, "", GET, None, e.Unavailable),
    (504, "", GET, None, e.Unavailable),
    (408, "", PUT, None, e.Unavailable),
    (400, "RequestTimeout", PUT, None, e.Unavailable),
    (507, "XMinioStorageFull", PUT, None, e.StorageFull),
    (400, "BadDigest", PUT, None, e.IntegrityMismatch),
    (400, "InvalidDigest", PUT, None, e.IntegrityMismatch),
    (400, "XAmzContentChecksumMismatch", PUT, None, e.IntegrityMismatch),
    (400, "EntityTooSmall", COMPLETE, None, e.PartTooSmall),
    (400, "InvalidPart", COMPLETE, ABSENT, e.InvalidPart),
    (400, "InvalidPartOrder", COMPLETE, None, e.InvalidPartOrder),
    (400, "InvalidArgument", PUT, None, e.InvalidInput),
    (400, "MalformedXML", StoreOperation.DELETE_MANY, None, e.InvalidInput),
    (400, "SomethingNew", PUT, None, e.InvalidInput),
    (416, "InvalidRange", GET, None, e.InvalidRange),
    (501, "NotImplemented", StoreOperation.DELETE_MANY, None, e.NotSupported),
    (405, "MethodNotAllowed", PUT, None, e.NotSupported),
    (400, "MissingContentMD5", StoreOperation.DELETE_MANY, None, e.NotSupported),
    (400, "MissingContentMD5", PUT, None, e.InvalidInput),
    (301, "PermanentRedirect", GET, None, e.InvalidSetting),
    (307, "", GET, None, e.InvalidSetting),
    (400, "AuthorizationHeaderMalformed", GET, None, e.InvalidSetting),
]


@pytest.mark.parametrize(("status", "code", "operation", "condition", "kind"), TABLE)
def test_response_is_mapped(
    status: int, code: str, operation: StoreOperation, condition: WriteCondition | None, kind: type[LakebedError]
) -> None:
    assert failure_kind(status, code, operation, condition) is kind
    assert type(failure(ErrorResponse(status, code), operation, "key", condition)) is kind


@given(
    status=st.integers(300, 599),
    code=st.text(max_size=20),
    operation=st.sampled_from(StoreOperation),
    condition=st.sampled_from([None, ABSENT, MATCH]),
)
def test_undecided_responses_are_never_mapped_to_decided_errors(
    status: int, code: str, operation: StoreOperation, condition: WriteCondition | None
) -> None:
    kind = failure_kind(status, code, operation, condition)
    if issubclass(kind, e.AlreadyExists | e.PreconditionFailed):
        assert status in (304, 404, 412) or code == "PreconditionFailed"


def test_error_message_ends_with_its_values() -> None:
    response = ErrorResponse(503, "SlowDown", "Please slow down", "REQ1")
    text = str(failure(response, StoreOperation.PUT, "a/b"))
    assert text == (
        "store request failed. operation=PutObject status=503 code=SlowDown key='a/b' request=REQ1 "
        "detail='Please slow down'"
    )


def test_range_error_contains_the_size_if_the_store_returned_it() -> None:
    error = failure(ErrorResponse(416, "InvalidRange", object_size=7), StoreOperation.GET, "k")
    assert isinstance(error, e.InvalidRange)
    assert error.size == 7


@pytest.mark.parametrize(
    ("status", "code", "operation", "undecided"),
    [
        (500, "InternalError", PUT, True),
        (502, "", COMPLETE, True),
        (504, "", StoreOperation.DELETE, True),
        (500, "InternalError", GET, False),
        (500, "InternalError", StoreOperation.UPLOAD_PART, False),
        (400, "RequestTimeout", PUT, False),
        (507, "XMinioStorageFull", PUT, False),
    ],
)
def test_internal_error_of_a_change_is_undecided(
    status: int, code: str, operation: StoreOperation, undecided: bool
) -> None:
    error = failure(ErrorResponse(status, code), operation, "k")
    assert isinstance(error, e.Unavailable)
    assert error.undecided is undecided
