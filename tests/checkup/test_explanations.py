from __future__ import annotations

import pytest

from lakebed.checkup.explanations import explain, rejected_keys
from lakebed.checkup.model import StepName
from lakebed.checkup.store_client import StoreResponse
from lakebed.checkup.target import CheckedStore
from lakebed.core import errors
from lakebed.core.errors import LakebedError
from lakebed.core.secrets import Secret
from lakebed.storage.credentials import Credentials
from lakebed.storage.s3 import S3Options

TARGET = CheckedStore(S3Options("bucket", prefix="lake", endpoint="https://store.example.org"), "us-east-1")
KEYS = Credentials("AKIDEXAMPLE", Secret("very-secret"), Secret("session-token"))


def response(status: int, code: str, more: str = "") -> StoreResponse:
    return StoreResponse(status, {}, f"<Error><Code>{code}</Code><Message>m</Message>{more}</Error>".encode())


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "InvalidAccessKeyId", "unknown access key"),
        (403, "SignatureDoesNotMatch", "the secret does not match"),
        (403, "RequestTimeTooSkewed", "the time of the signature"),
        (400, "ExpiredToken", "expired"),
        (400, "InvalidToken", "session token"),
        (401, "", "rejects the signature"),
        (500, "InternalError", "fails: 500"),
    ],
)
def test_credential_errors_quote_no_secrets(status: int, code: str, reason: str) -> None:
    refused = rejected_keys(response(status, code), KEYS, TARGET)
    assert refused is not None
    assert reason in refused.why
    assert refused.advice
    assert "very-secret" not in refused.why + refused.advice


def test_wrong_region_error_names_the_right_one() -> None:
    refused = rejected_keys(response(400, "AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>"), KEYS, TARGET)
    assert refused is not None
    assert "eu-west-3" in refused.why


@pytest.mark.parametrize(("status", "code"), [(200, ""), (403, "AccessDenied"), (404, "NoSuchBucket"), (501, "")])
def test_other_failures_do_not_reject_credentials(status: int, code: str) -> None:
    assert rejected_keys(response(status, code), KEYS, TARGET) is None


def _leaves(kind: type[LakebedError]) -> list[type[LakebedError]]:
    return [kind, *(leaf for below in kind.__subclasses__() for leaf in _leaves(below))]


OURS = [kind for kind in _leaves(LakebedError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_has_an_explanation(kind: type[LakebedError]) -> None:
    assert explain(StepName.MULTIPART, kind("what happened"), TARGET).why.endswith("what happened")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (StepName.PUT, "Allow s3:PutObject on arn:aws:s3:::bucket/lake/* and s3:GetObject"),
        (StepName.LIST, "Allow s3:ListBucket on arn:aws:s3:::bucket."),
        (StepName.DELETE, "Allow s3:DeleteObject on arn:aws:s3:::bucket/lake/*"),
    ],
)
def test_missing_permission_is_named_with_its_resource(step: StepName, reason: str) -> None:
    assert reason in explain(step, errors.AccessDenied("no"), TARGET).advice


@pytest.mark.parametrize(
    "body", [b"", b"not xml", b"<!DOCTYPE x><Error><Code>Code</Code></Error>", b"\xff\xfe", b"<a><b/></a>"]
)
def test_other_documents_have_no_error_code(body: bytes) -> None:
    assert (StoreResponse(500, {}, body).code, StoreResponse(500, {}, body).message) == ("", "")
