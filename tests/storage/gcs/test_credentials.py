"""Credentials of the options."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakebed.core.errors import InvalidSetting, LakebedError, Unauthenticated, Unavailable
from lakebed.core.secrets import Secret
from lakebed.storage.gcs import GcsOptions, source_token
from lakebed.storage.gcs.credentials import library_credentials
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, scripted_server


@cache
def private_key() -> str:
    """A key, made once, because that is slow."""
    encoded = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return encoded.decode()


def key_file(token_uri: str) -> str:
    """A key file of a service account."""
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "lake@project.iam.gserviceaccount.com",
            "private_key_id": "id",
            "private_key": private_key(),
            "token_uri": token_uri,
        }
    )


async def test_service_account_gets_a_token_with_its_expiry() -> None:
    seen: list[ScriptedRequest] = []

    def answer(request: ScriptedRequest) -> ScriptedResponse:
        seen.append(request)
        body = json.dumps({"access_token": "granted", "expires_in": 3600}).encode()
        return ScriptedResponse(200, body, {"content-type": "application/json"})

    with scripted_server(answer) as server:
        found = await source_token(GcsOptions("lake", service_account_json=Secret(key_file(f"{server.url}/token"))))
    assert found.token == Secret("granted")
    assert found.expires_ms is not None
    (assertion,) = parse_qs(seen[0].body.decode())["assertion"]
    claims = jwt.decode(assertion, options={"verify_signature": False})
    assert claims["iss"] == "lake@project.iam.gserviceaccount.com"
    assert abs(found.expires_ms / 1000 - claims["iat"] - 3600) < 60


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Unauthenticated), pytest.param(503, Unavailable, marks=pytest.mark.slow)],  # the library waits and retries
)
async def test_refused_service_account_is_reported_without_the_response(status: int, kind: type[LakebedError]) -> None:
    refusal = ScriptedResponse(status, b'{"error":"invalid_grant","error_description":"hidden"}')
    with scripted_server(lambda request: refusal) as server, pytest.raises(kind) as caught:
        await source_token(GcsOptions("lake", service_account_json=Secret(key_file(f"{server.url}/token"))))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["hidden", "[]", "{}", '{"client_email":"hidden","token_uri":"x","private_key":"hidden"}']
)
def test_invalid_key_file_is_rejected_and_not_quoted(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^service_account_json: ") as caught:
        library_credentials(GcsOptions("lake", service_account_json=Secret(text)))
    assert "hidden" not in str(caught.value)


def test_default_credentials_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key.json"
    path.write_text(key_file("https://oauth2.googleapis.com/token"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    found = library_credentials(GcsOptions("lake"))
    assert getattr(found, "service_account_email", None) == "lake@project.iam.gserviceaccount.com"


def test_missing_default_credentials_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    with pytest.raises(Unauthenticated):
        library_credentials(GcsOptions("lake"))
