"""Failures without a response."""

from __future__ import annotations

import pytest
import requests

from lakebed.storage.cloud.error_mapping import CloudOperation
from lakebed.storage.cloud.transport import no_response, pool_connections
from tests.fixtures.ports import free_port
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server


def failed_request(url: str) -> requests.RequestException:
    with requests.Session() as session:
        pool_connections(session, 2)
        try:
            session.get(url, timeout=5)
        except requests.RequestException as error:
            return error
    pytest.fail("the request succeeded")


def test_refused_connection_is_decided() -> None:
    error = no_response(failed_request(f"http://127.0.0.1:{free_port()}/?sig=secret"), CloudOperation.PUT, "k")
    assert not error.undecided
    assert "Connection refused" in str(error)
    assert "secret" not in str(error)


def test_lost_response_of_a_change_is_undecided() -> None:
    def cut(_: ScriptedRequest) -> ScriptedResponse:
        return ScriptedResponse(200, b"short", claimed_length=100)

    with scripted_server(cut) as server:
        error = failed_request(f"{server.url}/?sig=secret")
    assert no_response(error, CloudOperation.PUT, "k").undecided
    assert not no_response(error, CloudOperation.GET, "k").undecided
    assert "secret" not in str(no_response(error, CloudOperation.PUT, "k"))
