"""Every domain error maps to an S3 error with S3's code and message."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core import errors as e
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.s3.chunked import ChunkSignatureMismatch, MalformedChunk, MalformedTrailer, TruncatedBody
from lakebed.wire.s3.errors import (
    CONFIGURATION_CODES,
    S3_ERRORS,
    RenderedError,
    error_response,
    render_error,
    write_error,
)
from lakebed.wire.s3.xml import MalformedDocument, parse_document

from .documents.client import understood


def _tree(root: type[e.LakebedError] = e.LakebedError) -> Iterator[type[e.LakebedError]]:
    """All errors of `core.errors`, base classes first."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == e.__name__:
            yield from _tree(child)


MAPPED_BY_ANCESTRY: frozenset[type[e.LakebedError]] = frozenset(
    {
        # Errors of the catalog, which has another protocol.
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
        # The message is the listener's reason.
        e.Vetoed,
        # An error of the token endpoint.
        e.InvalidScope,
        # An error of the pipeline, which serves no requests.
        e.PipelineUnavailable,
    }
)
"""Errors that map like their base class. Each new error must be added either here or to the table."""


def test_tree_contains_all_errors_of_the_module() -> None:
    defined = {value for value in vars(e).values() if isinstance(value, type) and issubclass(value, e.LakebedError)}
    assert set(_tree()) == defined


@pytest.mark.parametrize("kind", list(_tree()), ids=lambda kind: kind.__name__)
def test_every_domain_error_has_a_row_or_maps_by_ancestry(kind: type[e.LakebedError]) -> None:
    assert (kind in S3_ERRORS) != (kind in MAPPED_BY_ANCESTRY)


@pytest.mark.parametrize("kind", [kind for kind in _tree() if kind is not e.NoSuchConfiguration])
def test_every_domain_error_is_rendered(kind: type[e.LakebedError]) -> None:
    rendered = render_error(kind("what happened. key=value"))
    assert 300 <= rendered.status <= 599
    assert rendered.code.isidentifier()
    assert rendered.message


@pytest.mark.parametrize("kind", [kind for kind in _tree() if kind.retryable], ids=lambda kind: kind.__name__)
def test_retryable_errors_have_codes_that_clients_retry(kind: type[e.LakebedError]) -> None:
    """SDKs retry 5xx; the caller retries a 409 of a conditional write."""
    rendered = render_error(kind())
    assert rendered.status in (503, 507) or rendered.code == "ConditionalRequestConflict"


@pytest.mark.parametrize("kind", [*_tree(e.InvalidInput), e.NotFound, e.AlreadyExists], ids=lambda kind: kind.__name__)
def test_client_errors_are_not_5xx(kind: type[e.LakebedError]) -> None:
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
def test_domain_error_maps_to_the_s3_status_and_code(error: e.LakebedError, status: int, code: str) -> None:
    rendered = render_error(error)
    assert (rendered.status, rendered.code) == (status, code)


@pytest.mark.parametrize("kind", CONFIGURATION_CODES)
def test_each_missing_configuration_has_its_code(kind: str) -> None:
    rendered = render_error(e.NoSuchConfiguration(kind))
    assert (rendered.status, rendered.code) == (404, CONFIGURATION_CODES[kind][0])


def test_configuration_without_a_code_is_named_in_the_message() -> None:
    rendered = render_error(e.NoSuchConfiguration("something"))
    assert (rendered.status, rendered.code) == (404, "NoSuchConfiguration")
    assert "something" in rendered.message


def test_subclass_maps_like_its_base_class() -> None:
    class NewChild(e.NoSuchUpload):
        pass

    assert render_error(NewChild()).code == "NoSuchUpload"


# -- headers and details --------------------------------------------------------------------------------------------


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
def test_errors_have_the_headers_that_clients_use(error: e.LakebedError, headers: dict[str, str]) -> None:
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
def test_errors_have_details(error: e.LakebedError, details: dict[str, str]) -> None:
    assert dict(render_error(error).details) == details


def test_anonymous_caller_does_not_learn_why_access_is_denied() -> None:
    denied = e.AccessDenied("explicitly denied by the resource policy. principal=anonymous")
    assert "policy" in render_error(denied).message
    assert "policy" not in render_error(denied, is_anonymous=True).message


@pytest.mark.parametrize("kind", [e.LakebedError, e.Corrupted, e.Unavailable, e.StorageFull, e.Throttled])
def test_server_errors_reveal_no_details(kind: type[e.LakebedError]) -> None:
    assert "/var/lib/secret" not in render_error(kind("cannot open. path=/var/lib/secret")).message


# -- error document -------------------------------------------------------------------------------------------------


@given(
    message=st.text(), resource=st.text(), details=st.dictionaries(st.sampled_from(["A", "B"]), st.text(), max_size=2)
)
def test_error_document_with_any_text_parses(message: str, resource: str, details: dict[str, str]) -> None:
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


def test_error_document_round_trips() -> None:
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
def test_responses_304_and_to_head_have_no_body(status: int) -> None:
    response = error_response(
        RenderedError(status, "Code", "message", [("ETag", '"a"')]),
        resource="/",
        request_id="R1",
        host_id="H",
        is_head=status != 304,
    )
    assert response.body == b""
    assert ("ETag", '"a"') in response.headers


def test_client_parses_the_error_with_its_details() -> None:
    body = write_error(
        "InvalidArgument", "no <good>", "/b/k&", "R1", {"ArgumentName": "max-keys", "ArgumentValue": "x"}
    )
    assert understood("GetObject", body, 400)["Error"] == {
        "Code": "InvalidArgument",
        "Message": "no <good>",
        "Resource": "/b/k&",
        "ArgumentName": "max-keys",
        "ArgumentValue": "x",
    }
    assert parse_document(body, "Error").text_of("RequestId") == "R1"


def test_invalid_unicode_in_an_error_is_replaced() -> None:
    body = write_error("NoSuchKey", "", "/b/\udcff", "R1")
    assert understood("GetObject", body, 404)["Error"]["Resource"] == "/b/?"
