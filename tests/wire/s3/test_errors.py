"""Every error of the core has an answer on this wire, and the answer says what S3 says."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core import errors as e
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.s3.chunked import ChunkSignatureMismatch, MalformedChunk, MalformedTrailer, TruncatedBody
from lakebed.wire.s3.errors import CONFIGURATION_CODES, S3_ERRORS, RenderedError, error_response, render_error
from lakebed.wire.s3.xml import MalformedDocument


def _tree(root: type[e.LakebedError] = e.LakebedError) -> Iterator[type[e.LakebedError]]:
    """Every error of the core, parents before children."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == e.__name__:
            yield from _tree(child)


MAPPED_BY_ANCESTRY: frozenset[type[e.LakebedError]] = frozenset(
    {
        # The catalog's own, which has its own edge.
        e.NoSuchCatalog,
        e.NoSuchNamespace,
        e.NoSuchTable,
        e.NoSuchView,
        e.NoSuchPolicy,
        e.NoSuchPolicyType,
        e.NoSuchTarget,
        e.NoSuchAttachment,
        e.NotAttachable,
        e.PolicyVersionMismatch,
        e.PolicyInUse,
        e.AttachmentConflict,
        e.NoSuchPlanId,
        e.NoSuchPlanTask,
        e.CommitConflict,
        e.PointerMoved,
        e.ExternalCatalogError,
        e.MissingExtra,
        e.NoSuchAccessKey,
        e.NoSuchUserPolicy,
        e.NamespaceNotEmpty,
        e.CatalogNotEmpty,
        e.TableProtected,
        e.LocationConflict,
        e.ConflictingProperties,
        e.DuplicateRequest,
        e.InvalidViewVersion,
        # Told with the listener's reason.
        e.Vetoed,
        # Of the token endpoint, which has its own edge, too.
        e.InvalidScope,
        # Of the pipeline, which answers nobody.
        e.PipelineUnavailable,
    }
)
"""Leaves that mean to clients of S3 what their parents mean. A new one is put here or into the table, knowingly."""


def test_tree_is_all_of_the_module() -> None:
    defined = {value for value in vars(e).values() if isinstance(value, type) and issubclass(value, e.LakebedError)}
    assert set(_tree()) == defined


@pytest.mark.parametrize("kind", list(_tree()), ids=lambda kind: kind.__name__)
def test_every_error_of_the_core_has_a_row_of_its_own(kind: type[e.LakebedError]) -> None:
    assert (kind in S3_ERRORS) != (kind in MAPPED_BY_ANCESTRY)


@pytest.mark.parametrize("kind", [kind for kind in _tree() if kind is not e.NoSuchConfiguration])
def test_every_error_of_the_core_is_rendered(kind: type[e.LakebedError]) -> None:
    rendered = render_error(kind("what happened. key=value"))
    assert 300 <= rendered.status <= 599
    assert rendered.code.isidentifier()
    assert rendered.message


@pytest.mark.parametrize("kind", [kind for kind in _tree() if kind.retryable], ids=lambda kind: kind.__name__)
def test_error_that_a_retry_can_help_is_one_that_clients_retry(kind: type[e.LakebedError]) -> None:
    """SDKs retry 5xx and these codes; a 409 of a conditional write is the caller's to try again."""
    rendered = render_error(kind())
    assert rendered.status in (503, 507) or rendered.code == "ConditionalRequestConflict"


@pytest.mark.parametrize("kind", [*_tree(e.InvalidInput), e.NotFound, e.AlreadyExists], ids=lambda kind: kind.__name__)
def test_error_of_the_callers_making_is_no_5xx(kind: type[e.LakebedError]) -> None:
    assert 400 <= render_error(kind()).status < 500


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (e.NoSuchKey(), 404, "NoSuchKey"),
        (e.NoSuchBucket(), 404, "NoSuchBucket"),
        (e.NoSuchVersion(), 404, "NoSuchVersion"),
        (e.NoSuchUpload(), 404, "NoSuchUpload"),
        (e.BucketAlreadyOwned(), 409, "BucketAlreadyOwnedByYou"),
        (e.BucketAlreadyExists(), 409, "BucketAlreadyExists"),
        (e.BucketNotEmpty(), 409, "BucketNotEmpty"),
        (e.PreconditionFailed(), 412, "PreconditionFailed"),
        (e.WriteConflict(), 409, "ConditionalRequestConflict"),
        (e.NotModified(), 304, "NotModified"),
        (e.InvalidRange(), 416, "InvalidRange"),
        (e.InvalidPart(), 400, "InvalidPart"),
        (e.InvalidPartOrder(), 400, "InvalidPartOrder"),
        (e.PartTooSmall(), 400, "EntityTooSmall"),
        (e.TooLarge(), 400, "EntityTooLarge"),
        (e.TooLarge(argument="key"), 400, "KeyTooLongError"),
        (e.TooLarge(argument="metadata"), 400, "MetadataTooLarge"),
        (e.InvalidInput(argument="max-keys"), 400, "InvalidArgument"),
        (e.InvalidInput(), 400, "InvalidRequest"),
        (e.IsDeleteMarker(), 405, "MethodNotAllowed"),
        (e.IntegrityMismatch(), 400, "BadDigest"),
        (e.IntegrityMismatch(digest="md5", claimed="00", calculated="ff"), 400, "BadDigest"),
        (e.IntegrityMismatch(digest="sha256-payload"), 400, "XAmzContentSHA256Mismatch"),
        (e.Incomplete(), 400, "IncompleteBody"),
        (e.AccessDenied(), 403, "AccessDenied"),
        (e.VersionProtected(), 403, "AccessDenied"),
        (e.InvalidBucketState(), 409, "InvalidBucketState"),
        (e.InvalidTag(), 400, "InvalidTag"),
        (e.InvalidPolicy(), 400, "MalformedPolicy"),
        (e.InvalidRetention(), 400, "InvalidArgument"),
        (e.NotSupported(), 501, "NotImplemented"),
        (e.Throttled(), 503, "SlowDown"),
        (e.Unavailable(), 503, "ServiceUnavailable"),
        (e.StorageFull(), 507, "InsufficientStorage"),
        (e.Corrupted(), 500, "InternalError"),
        (e.LakebedError(), 500, "InternalError"),
        (MalformedDocument("x"), 400, "MalformedXML"),
        (MalformedTrailer("x"), 400, "MalformedTrailerError"),
        (ChunkSignatureMismatch("x"), 403, "SignatureDoesNotMatch"),
        (MalformedChunk("x"), 400, "IncompleteBody"),
        (TruncatedBody("x"), 400, "IncompleteBody"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_answer_is_the_one_s3_gives(error: e.LakebedError, status: int, code: str) -> None:
    rendered = render_error(error)
    assert (rendered.status, rendered.code) == (status, code)


@pytest.mark.parametrize("kind", CONFIGURATION_CODES)
def test_each_absent_setting_has_a_code_of_its_own(kind: str) -> None:
    rendered = render_error(e.NoSuchConfiguration(kind))
    assert (rendered.status, rendered.code) == (404, CONFIGURATION_CODES[kind][0])


def test_setting_without_a_code_says_what_it_is() -> None:
    rendered = render_error(e.NoSuchConfiguration("something"))
    assert (rendered.status, rendered.code) == (404, "NoSuchConfiguration")
    assert "something" in rendered.message


def test_wires_own_errors_are_found_by_their_ancestry() -> None:
    class NewChild(e.NoSuchUpload):
        pass

    assert render_error(NewChild()).code == "NoSuchUpload"


# -- what comes with an answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (e.NoSuchKey(), {}),
        (e.NoSuchKey(delete_marker="v1"), {"x-amz-delete-marker": "true", "x-amz-version-id": "v1"}),
        (e.IsDeleteMarker(), {"x-amz-delete-marker": "true", "Allow": "DELETE"}),
        (e.NotModified(etag="abc"), {"ETag": '"abc"'}),
        (e.InvalidRange(size=10), {"Content-Range": "bytes */10"}),
        (e.Unavailable(), {"Retry-After": "1"}),
        (AwsFault(400, "X", "x", [("A", "b")]), {"A": "b"}),
    ],
)
def test_headers_tell_what_clients_act_on(error: e.LakebedError, headers: dict[str, str]) -> None:
    assert dict(render_error(error).headers) == headers


@pytest.mark.parametrize(
    ("error", "details"),
    [
        (e.PreconditionFailed(condition="If-Match"), {"Condition": "If-Match"}),
        (e.InvalidRange(size=10), {"ActualObjectSize": "10"}),
        (e.InvalidInput("x", argument="a", value="b"), {"ArgumentName": "a", "ArgumentValue": "b"}),
        (e.InvalidPart(part=3, count=2), {"ActualPartCount": "2", "PartNumberRequested": "3"}),
        (AwsFault(400, "X", "x", BucketName="b"), {"BucketName": "b"}),
    ],
)
def test_details_name_what_is_wrong(error: e.LakebedError, details: dict[str, str]) -> None:
    assert dict(render_error(error).details) == details


def test_who_did_not_sign_is_not_told_why_access_is_denied() -> None:
    denied = e.AccessDenied("explicitly denied by the resource policy. principal=anonymous")
    assert "policy" in render_error(denied).message
    assert "policy" not in render_error(denied, is_anonymous=True).message


@pytest.mark.parametrize("kind", [e.LakebedError, e.Corrupted, e.Unavailable, e.StorageFull, e.Throttled])
def test_faults_of_ours_are_not_explained_to_clients(kind: type[e.LakebedError]) -> None:
    assert "/var/lib/secret" not in render_error(kind("cannot open. path=/var/lib/secret")).message


# -- the document ---------------------------------------------------------------------------------------------------


@given(
    message=st.text(), resource=st.text(), details=st.dictionaries(st.sampled_from(["A", "B"]), st.text(), max_size=2)
)
def test_any_text_makes_a_document_that_parses(message: str, resource: str, details: dict[str, str]) -> None:
    response = error_response(
        RenderedError(400, "Code", message, details=details),
        resource=resource,
        request_id="R1",
        host_id="H",
        is_head=False,
    )
    document = ElementTree.fromstring(response.body)
    assert document.tag == "Error"
    assert [child.tag for child in document] == ["Code", "Message", *details, "Resource", "RequestId", "HostId"]
    assert document.findtext("RequestId") == "R1"


def test_document_is_read_back_as_it_was_written() -> None:
    rendered = RenderedError(400, "InvalidArgument", "a < b & c", [("X", "y")], {"ArgumentName": '"q"'})
    response = error_response(rendered, resource="/b/<k>", request_id="R1", host_id="H", is_head=False)
    document = ElementTree.fromstring(response.body)
    assert {child.tag: child.text for child in document} == {
        "Code": "InvalidArgument",
        "Message": "a < b & c",
        "ArgumentName": '"q"',
        "Resource": "/b/<k>",
        "RequestId": "R1",
        "HostId": "H",
    }
    assert response.status == 400
    assert dict(response.headers) == {"X": "y", "Content-Type": "application/xml"}


@pytest.mark.parametrize("status", [304, 404])
def test_answer_without_a_body_where_http_allows_none(status: int) -> None:
    response = error_response(
        RenderedError(status, "Code", "message", [("ETag", '"a"')]),
        resource="/",
        request_id="R1",
        host_id="H",
        is_head=status != 304,
    )
    assert response.body == b""
    assert ("ETag", '"a"') in response.headers
