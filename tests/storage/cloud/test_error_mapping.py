"""Mapping of error responses of Azure and GCS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core import errors as e
from lakebed.core.errors import LakebedError
from lakebed.storage.cloud.error_mapping import AZURE_CODES, GCS_CODES, CloudOperation, CodeTable, failure, failure_kind
from lakebed.storage.error_response import ErrorResponse
from lakebed.storage.seam import IfAbsent, IfMatch, WriteCondition

ABSENT = IfAbsent()
MATCH = IfMatch("tag")
PUT, GET = CloudOperation.PUT, CloudOperation.GET
DELETE, COMPLETE = CloudOperation.DELETE, CloudOperation.PUT_BLOCK_LIST

Row = tuple[int, str, WriteCondition | None, type[LakebedError]]

AZURE: list[Row] = [
    (404, "BlobNotFound", None, e.NoSuchKey),
    (404, "ContainerNotFound", None, e.NoSuchBucket),
    (404, "ContainerNotFound", MATCH, e.NoSuchBucket),
    (404, "BlobNotFound", MATCH, e.PreconditionFailed),
    (404, "", None, e.NotFound),
    (409, "BlobAlreadyExists", ABSENT, e.AlreadyExists),
    (409, "BlobAlreadyExists", ABSENT, e.AlreadyExists),
    (409, "BlobAlreadyExists", None, e.WriteConflict),
    (409, "", ABSENT, e.WriteConflict),
    (409, "PendingCopyOperation", MATCH, e.WriteConflict),
    (412, "ConditionNotMet", ABSENT, e.AlreadyExists),
    (412, "ConditionNotMet", MATCH, e.PreconditionFailed),
    (412, "", MATCH, e.PreconditionFailed),
    (412, "LeaseIdMissing", MATCH, e.AccessDenied),
    (412, "LeaseIdMissing", ABSENT, e.AccessDenied),
    (409, "SnapshotsPresent", None, e.StateConflict),
    (409, "BlobImmutableDueToPolicy", None, e.VersionProtected),
    (403, "AuthenticationFailed", None, e.Unauthenticated),
    (403, "AuthorizationPermissionMismatch", None, e.AccessDenied),
    (403, "SomethingNew", None, e.AccessDenied),
    (503, "ServerBusy", None, e.Throttled),
    (500, "OperationTimedOut", None, e.Unavailable),
    (400, "InvalidBlockList", ABSENT, e.InvalidPart),
    (413, "RequestBodyTooLarge", None, e.TooLarge),
    (416, "InvalidRange", None, e.InvalidRange),
    (400, "SomethingNew", None, e.InvalidInput),
    (307, "", None, e.InvalidSetting),
]
GCS: list[Row] = [
    (404, "notFound", None, e.NoSuchKey),
    (404, "bucketNotFound", None, e.NoSuchBucket),
    (404, "", None, e.NotFound),
    (412, "conditionNotMet", ABSENT, e.AlreadyExists),
    (412, "conditionNotMet", MATCH, e.PreconditionFailed),
    (412, "", ABSENT, e.AlreadyExists),
    (401, "authError", None, e.CredentialsExpired),
    (401, "required", None, e.Unauthenticated),
    (403, "forbidden", None, e.AccessDenied),
    (403, "retentionPolicyNotMet", None, e.VersionProtected),
    (403, "rateLimitExceeded", None, e.Throttled),
    (429, "rateLimitExceeded", None, e.Throttled),
    (503, "backendError", None, e.Unavailable),
    (409, "conflict", ABSENT, e.WriteConflict),
    (416, "requestedRangeNotSatisfiable", None, e.InvalidRange),
]


@pytest.mark.parametrize(
    ("codes", "status", "code", "condition", "kind"),
    [(AZURE_CODES, *row) for row in AZURE] + [(GCS_CODES, *row) for row in GCS],
)
def test_response_is_mapped(
    codes: CodeTable,
    status: int,
    code: str,
    condition: WriteCondition | None,
    kind: type[LakebedError],
) -> None:
    assert failure_kind(codes, status, code, condition) is kind
    assert type(failure(codes, ErrorResponse(status, code), PUT, "key", condition)) is kind


@given(
    codes=st.sampled_from([AZURE_CODES, GCS_CODES]),
    status=st.sampled_from([400, 401, 403, 408, 409, 429, 500, 502, 503, 504]),
    code=st.text(max_size=20) | st.sampled_from(sorted({**AZURE_CODES, **GCS_CODES})),
    condition=st.sampled_from([None, ABSENT, MATCH]),
)
def test_undecided_responses_are_never_mapped_to_decided_errors(
    codes: CodeTable, status: int, code: str, condition: WriteCondition | None
) -> None:
    kind = failure_kind(codes, status, code, condition)
    decided = issubclass(kind, e.AlreadyExists | e.PreconditionFailed)
    if decided:
        known = codes.get(code)
        assert known is not None
        assert issubclass(known, e.AlreadyExists | e.PreconditionFailed | e.NoSuchKey)


@pytest.mark.parametrize(
    ("status", "operation", "undecided"),
    [(500, PUT, True), (502, COMPLETE, True), (504, DELETE, True), (500, GET, False), (408, PUT, False)],
)
def test_internal_error_of_a_change_is_undecided(status: int, operation: CloudOperation, undecided: bool) -> None:
    error = failure(AZURE_CODES, ErrorResponse(status, ""), operation, "k")
    assert isinstance(error, e.Unavailable)
    assert error.undecided is undecided
