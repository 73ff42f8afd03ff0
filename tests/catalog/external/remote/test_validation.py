from __future__ import annotations

import pytest

from lakebed.catalog.external.remote.model import NO_SECRETS, AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets
from lakebed.catalog.external.remote.validation import check_address, check_auth
from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.governance.credentials.vault import Vault
from tests.catalog.extension_catalog import MASTER

CLIENT = RemoteSecrets(client_secret=Secret("s3cret"))
KEYS = RemoteSecrets(secret_access_key=Secret("s3cret"))
ROLE = RemoteAuth(kind=AuthKind.SIGV4, role_arn="arn:aws:iam::123456789012:role/r", region="eu-1", service="glue")


@pytest.mark.parametrize(
    ("auth", "secrets"),
    [
        (RemoteAuth(), NO_SECRETS),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me"), CLIENT),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri="https://l.test/t", scopes=("a:b",)), CLIENT),
        (ROLE, NO_SECRETS),
        (RemoteAuth(kind=AuthKind.SIGV4, access_key_id="AK", region="r", service="s3"), KEYS),
    ],
)
def test_consistent_authentication_is_accepted(auth: RemoteAuth, secrets: RemoteSecrets) -> None:
    check_auth(auth, secrets)


@pytest.mark.parametrize(
    ("auth", "secrets"),
    [
        (RemoteAuth(client_id="me"), NO_SECRETS),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me"), NO_SECRETS),
        (RemoteAuth(kind=AuthKind.OAUTH), CLIENT),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me", region="r"), CLIENT),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me", scopes=("a b",)), CLIENT),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri="http://l.test/t"), CLIENT),
        (RemoteAuth(kind=AuthKind.OAUTH, client_id="me", token_uri="https://u:p@l.test/t"), CLIENT),
        (RemoteAuth(kind=AuthKind.BEARER), CLIENT),
        (ROLE, KEYS),
        (RemoteAuth(kind=AuthKind.SIGV4, role_arn="x", region="r", service="s"), NO_SECRETS),
    ],
)
def test_inconsistent_authentication_is_rejected_without_secrets(auth: RemoteAuth, secrets: RemoteSecrets) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_auth(auth, secrets)
    assert "s3cret" not in str(refused.value)


def test_tokens_require_https_or_loopback() -> None:
    for kind in (AuthKind.BEARER, AuthKind.OAUTH):
        check_address(RemoteAddress("https://far.test"), RemoteAuth(kind=kind))
        check_address(RemoteAddress("http://localhost:8181"), RemoteAuth(kind=kind))
        with pytest.raises(InvalidInput):
            check_address(RemoteAddress("http://far.test"), RemoteAuth(kind=kind))


def test_secrets_of_earlier_releases_are_decoded() -> None:
    old = b"\x93\xa1t\xa1k\xa1s"
    vault = Vault(MASTER, "secrets")
    assert RemoteSecrets.opened(vault, vault.seal(old, b"1"), "1") == RemoteSecrets(
        Secret("t"), Secret("k"), Secret("s")
    )
