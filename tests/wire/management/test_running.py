"""Principals of the management API on a running server: tokens, scopes and credential rotation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.fixtures.server import RunningServer, running_server
from tests.wire.iceberg.contract import Signed

pytestmark = [pytest.mark.slow, pytest.mark.integration]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("management")
    with running_server(folder / "data") as running:
        yield running


@pytest.fixture
def root(server: RunningServer) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.auth = Signed(urlsplit(server.endpoint).netloc)
        yield session


def token(server: RunningServer, credentials: dict[str, str], scope: str) -> dict[str, str]:
    """An Authorization header with a token for the credentials."""
    form = {
        "grant_type": "client_credentials",
        "client_id": credentials["clientId"],
        "client_secret": credentials["clientSecret"],
        "scope": scope,
    }
    answer = requests.post(f"{server.endpoint}/api/catalog/v1/oauth/tokens", data=form, timeout=60)
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def test_token_activates_the_roles_of_its_scope(server: RunningServer, root: requests.Session) -> None:
    base = f"{server.endpoint}/api/management/v1"
    created = root.post(f"{base}/principals", json={"principal": {"name": "admin"}})
    assert created.status_code == 201, created.text
    credentials = created.json()["credentials"]
    assigned = f"{base}/principals/admin/principal-roles"
    assert root.post(f"{base}/principal-roles", json={"principalRole": {"name": "engineer"}}).status_code == 201
    for role in ("engineer", "service_admin"):
        assert root.put(assigned, json={"principalRole": {"name": role}}).status_code == 201

    def lists(headers: dict[str, str]) -> int:
        return requests.get(f"{base}/principals", headers=headers, timeout=60).status_code

    all_roles = token(server, credentials, "PRINCIPAL_ROLE:ALL")
    assert lists(all_roles) == 200
    assert lists(token(server, credentials, "PRINCIPAL_ROLE:service_admin")) == 200
    assert lists(token(server, credentials, "PRINCIPAL_ROLE:engineer")) == 403
    # A revoked role ends with the next request, although the token has its scope.
    assert root.delete(f"{assigned}/service_admin").status_code == 204
    assert lists(all_roles) == 403
    # A deleted principal is not authenticated any more.
    assert root.delete(f"{base}/principals/admin").status_code == 204
    assert lists(all_roles) == 401


def test_secret_that_must_be_rotated_allows_only_rotation(server: RunningServer, root: requests.Session) -> None:
    base = f"{server.endpoint}/api/management/v1"
    created = root.post(f"{base}/principals", json={"principal": {"name": "new"}, "credentialRotationRequired": True})
    first = created.json()["credentials"]
    body = {"principalRole": {"name": "service_admin"}}
    assert root.put(f"{base}/principals/new/principal-roles", json=body).status_code == 201
    old = token(server, first, "PRINCIPAL_ROLE:ALL")

    def status(headers: dict[str, str], method: str = "GET", path: str = "principals") -> int:
        return requests.request(method, f"{base}/{path}", headers=headers, timeout=60).status_code

    assert [status(old), status(old, path="catalogs"), status(old, "POST", "principals/root/rotate")] == [403] * 3
    rotated = requests.post(f"{base}/principals/new/rotate", headers=old, timeout=60)
    assert rotated.status_code == 200, rotated.text
    assert status(token(server, rotated.json()["credentials"], "PRINCIPAL_ROLE:ALL")) == 200
    # The first secret stays restricted: the creator of the principal knows it.
    assert status(old) == 403
    assert status(token(server, first, "PRINCIPAL_ROLE:ALL")) == 403


def test_principal_rotates_its_own_credentials_with_a_token(server: RunningServer, root: requests.Session) -> None:
    base = f"{server.endpoint}/api/management/v1"
    created = root.post(f"{base}/principals", json={"principal": {"name": "ann"}})
    first = created.json()["credentials"]
    headers = token(server, first, "PRINCIPAL_ROLE:ALL")
    rotated = requests.post(f"{base}/principals/ann/rotate", headers=headers, timeout=60)
    assert rotated.status_code == 200, rotated.text
    second = rotated.json()["credentials"]
    for credentials in (first, second):
        token(server, credentials, "PRINCIPAL_ROLE:ALL")
    assert requests.post(f"{base}/principals/root/rotate", headers=headers, timeout=60).status_code == 403
