from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client.errors import failure_of
from lakebed.core import errors as e
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.json.errors import error_document, error_model


def round_trip(error: e.LakebedError) -> e.LakebedError:
    """The error that the client raises for the server's error."""
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
def test_errors_round_trip_over_the_wire(kind: type[e.LakebedError]) -> None:
    seen = round_trip(kind("a message of the server"))
    assert type(seen) is kind
    assert "a message of the server" in str(seen)
    assert seen.retryable is kind.retryable


def test_expired_key_is_not_invalid_input() -> None:
    """Its advice is to use another key, not to read --help."""
    seen = round_trip(AwsFault(400, "ExpiredToken", "The provided access key has expired."))
    assert type(seen) is e.CredentialsExpired
    assert "The provided access key has expired" in str(seen)


def test_undecided_outcome_stays_undecided() -> None:
    seen = round_trip(e.Unavailable("lost", undecided=True))
    assert isinstance(seen, e.Unavailable)
    assert seen.undecided


@pytest.mark.parametrize(("operation", "undecided"), [("GET /x", False), ("HEAD /x", False), ("POST /x", True)])
def test_server_error_leaves_a_mutation_undecided(operation: str, undecided: bool) -> None:
    seen = failure_of(502, b"<html>bad gateway</html>", operation)
    assert isinstance(seen, e.Unavailable)
    assert seen.undecided is undecided
    assert "bad gateway" in str(seen)


def test_rejected_credentials_have_advice() -> None:
    assert "check that the access key" in str(failure_of(401, b"", "GET /x"))
    assert "with the permission" in str(failure_of(403, b"", "GET /x"))


@given(
    st.integers(100, 599),
    st.binary(max_size=64) | st.builds(lambda text: json.dumps({"error": text}).encode(), st.text()),
)
def test_every_error_response_becomes_an_error(status: int, body: bytes) -> None:
    assert isinstance(failure_of(status, body, "GET /x"), e.LakebedError)
