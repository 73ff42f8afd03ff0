from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client.errors import failure_of
from lakebed.core import errors as e
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.json.errors import error_document, error_model


def told(error: e.LakebedError) -> e.LakebedError:
    """An error, as the other side of the wire sees it."""
    refusal = error_model(error)
    return failure_of(refusal.status, error_document(refusal, str(error)), "GET /x")


@pytest.mark.parametrize(
    "kind",
    [
        e.InvalidInput,
        e.NotFound,
        e.NoSuchCatalog,
        e.NoSuchNamespace,
        e.NoSuchTable,
        e.NoSuchView,
        e.AlreadyExists,
        e.NamespaceNotEmpty,
        e.TableProtected,
        e.Unauthenticated,
        e.AccessDenied,
        e.NotSupported,
        e.Throttled,
        e.Unavailable,
        e.StorageFull,
    ],
)
def test_an_error_comes_back_as_what_it_was(kind: type[e.LakebedError]) -> None:
    seen = told(kind("the words of the server"))
    assert type(seen) is kind
    assert "the words of the server" in str(seen)
    assert seen.retryable is kind.retryable


def test_an_expired_key_is_not_a_mistake_in_the_request() -> None:
    """So that the hint is to use another key, and not to read --help."""
    seen = told(AwsFault(400, "ExpiredToken", "The provided access key has expired."))
    assert type(seen) is e.CredentialsExpired
    assert "The provided access key has expired" in str(seen)


def test_an_unknown_outcome_stays_unknown() -> None:
    seen = told(e.Unavailable("lost", undecided=True))
    assert isinstance(seen, e.Unavailable)
    assert seen.undecided


@pytest.mark.parametrize(("asked", "undecided"), [("GET /x", False), ("HEAD /x", False), ("POST /x", True)])
def test_a_crash_leaves_open_what_a_change_has_done(asked: str, undecided: bool) -> None:
    seen = failure_of(502, b"<html>bad gateway</html>", asked)
    assert isinstance(seen, e.Unavailable)
    assert seen.undecided is undecided
    assert "bad gateway" in str(seen)


def test_refused_credentials_say_what_to_do() -> None:
    assert "check that the access key" in str(failure_of(401, b"", "GET /x"))
    assert "with the permission" in str(failure_of(403, b"", "GET /x"))


@given(
    st.integers(100, 599),
    st.binary(max_size=64) | st.builds(lambda text: json.dumps({"error": text}).encode(), st.text()),
)
def test_no_answer_is_without_an_error(status: int, body: bytes) -> None:
    assert isinstance(failure_of(status, body, "GET /x"), e.LakebedError)
