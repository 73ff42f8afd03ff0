from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.external.remote.errors import (
    ERRORS_BY_TYPE,
    MAX_MESSAGE_CHARS,
    StatusMapping,
    redacted_error,
    response_error,
)
from lakebed.core import errors as e
from lakebed.net.http import HttpResponse
from lakebed.wire.json.errors import ERROR_MODELS
from lakebed.wire.json.errors import error_model as on_the_wire

HOST = "far.example"


def answer(status: int, kind: str = "", message: str = "its words") -> HttpResponse:
    return HttpResponse(status, json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode())


@pytest.mark.parametrize("kind", sorted(ERRORS_BY_TYPE))
def test_known_error_types_are_kept(kind: str) -> None:
    status = on_the_wire(ERRORS_BY_TYPE[kind]("")).status
    error = response_error(answer(status, kind), HOST, changes=True)
    assert type(error) is ERRORS_BY_TYPE[kind]
    assert str(error) == "its words"
    named = on_the_wire(error).type
    assert kind in (named, named.replace("Such", "SuchIceberg"), "SlowDownException")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, "CommitFailedException"), (502, "AlreadyExistsException"), (504, "NoSuchTableException"), (200, "X")],
)
def test_error_type_is_accepted_with_its_statuses_only(status: int, kind: str) -> None:
    error = response_error(answer(status, kind), HOST, changes=True)
    if status >= 500:
        assert isinstance(error, e.ExternalCatalogError)
        assert error.undecided


@pytest.mark.parametrize("status", [500, 502, 504, 505, 520])
def test_server_error_leaves_only_changes_undecided(status: int) -> None:
    for changes in (True, False):
        error = response_error(answer(status), HOST, changes=changes)
        assert isinstance(error, e.ExternalCatalogError)
        assert error.undecided is changes
        assert "its words" in str(error)


def test_statuses_without_a_type_follow_the_mapping_of_the_operation() -> None:
    mapping = StatusMapping(e.NoSuchView, e.AlreadyExists)
    assert isinstance(response_error(HttpResponse(404, b""), HOST, changes=False, mapping=mapping), e.NoSuchView)
    assert isinstance(response_error(HttpResponse(409, b"{}"), HOST, changes=True, mapping=mapping), e.AlreadyExists)
    assert isinstance(response_error(HttpResponse(409, b"<html>"), HOST, changes=True), e.CommitConflict)


def test_errors_about_this_servers_credentials_are_not_forwarded() -> None:
    error = response_error(
        answer(401, "NotAuthorizedException", "token of lakebed-service expired"), HOST, changes=True
    )
    assert isinstance(error, e.ExternalCatalogError)
    assert not error.undecided
    assert "lakebed-service" not in str(error)


def test_messages_are_bounded_and_without_stack_traces() -> None:
    traced = "no such table\n\tat org.example.Table.run(Table.java:7)\n\tat more"
    assert str(response_error(answer(400, message=traced), HOST, changes=False)) == "no such table"
    assert len(str(response_error(answer(400, message="x" * 99_999), HOST, changes=False))) == MAX_MESSAGE_CHARS
    assert "\x1b" not in str(response_error(answer(400, message="a\x1b[31mb"), HOST, changes=False))


@given(
    st.integers(100, 999),
    st.binary(max_size=200) | st.builds(lambda x: json.dumps(x).encode(), st.text()),
    st.booleans(),
)
def test_any_error_response_maps_to_an_error(status: int, body: bytes, changes: bool) -> None:
    error = response_error(HttpResponse(status, body), HOST, changes=changes)
    assert on_the_wire(error).status >= 400
    if changes and status >= 500 and status not in (501, 503, 507):
        # Never a 4xx, which would report that nothing was changed.
        assert on_the_wire(error).type == "CommitStateUnknownException"
    assert isinstance(redacted_error(HttpResponse(status, body), HOST), e.LakebedError)
    assert type(error) is e.ExternalCatalogError or any(kind in ERROR_MODELS for kind in type(error).__mro__)
