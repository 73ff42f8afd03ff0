from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.tables.remote.checking import AllowedHosts, check_address, check_auth
from lakebed.tables.remote.model import NO_SECRETS, AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets

CLIENT = RemoteSecrets(client_secret=Secret("s3cret"))
KEYS = RemoteSecrets(secret_access_key=Secret("s3cret"))
ROLE = RemoteAuth(kind=AuthKind.SIGV4, role_arn="arn:aws:iam::123456789012:role/r", region="eu-1", service="glue")


@pytest.mark.parametrize(
    ("patterns", "uri"),
    [
        (["*"], "http://anything.test:1234/x"),
        (["far.example"], "https://far.example/"),
        (["FAR.example"], "https://Far.Example:8181/"),
        (["far.example:8181"], "http://far.example:8181"),
        (["far.example:443"], "https://far.example"),
        (["*.example"], "https://a.b.example"),
        (["127.0.0.1:9000"], "http://127.0.0.1:9000"),
        (["[::1]:9000"], "http://[::1]:9000"),
        (["[::1]"], "http://[::1]:9000"),
    ],
)
def test_hosts_that_are_named_may_be_spoken_to(patterns: list[str], uri: str) -> None:
    AllowedHosts(patterns).check(uri)


@pytest.mark.parametrize(
    ("patterns", "uri"),
    [
        ([], "http://far.example"),
        (["far.example"], "http://near.example"),
        (["far.example"], "http://far.example.evil.test"),
        (["far.example"], "http://evilfar.example"),
        (["far.example:443"], "http://far.example"),
        (["*.example"], "http://example"),
        (["*.example"], "http://evilexample"),
        (["*.example"], "http://evil.test/.example"),
        (["*.example"], "http://.example"),
        (["far.example"], "http://169.254.169.254"),
        (["[::1]:9000"], "http://[::1]:9001"),
    ],
)
def test_all_others_may_not(patterns: list[str], uri: str) -> None:
    with pytest.raises(InvalidInput, match=r"federation\.hosts"):
        AllowedHosts(patterns).check(uri)


@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1), st.integers(1, 65535))
def test_host_is_allowed_exactly_by_its_own_name(host: str, port: int) -> None:
    uri = f"http://{host}.test:{port}/x"
    AllowedHosts([f"{host}.test"]).check(uri)
    AllowedHosts([f"{host}.test:{port}"]).check(uri)
    with pytest.raises(InvalidInput):
        AllowedHosts([f"x{host}.test", f"{host}.test:{port % 65535 + 1}"]).check(uri)


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
def test_what_goes_together_is_taken(auth: RemoteAuth, secrets: RemoteSecrets) -> None:
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
def test_what_does_not_is_refused_without_its_secrets(auth: RemoteAuth, secrets: RemoteSecrets) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_auth(auth, secrets)
    assert "s3cret" not in str(refused.value)


def test_tokens_are_sent_over_https_or_to_this_machine() -> None:
    for kind in (AuthKind.BEARER, AuthKind.OAUTH):
        check_address(RemoteAddress("https://far.test"), RemoteAuth(kind=kind))
        check_address(RemoteAddress("http://localhost:8181"), RemoteAuth(kind=kind))
        with pytest.raises(InvalidInput):
            check_address(RemoteAddress("http://far.test"), RemoteAuth(kind=kind))


def test_secrets_of_earlier_releases_open() -> None:
    old = b"\x93\xa1t\xa1k\xa1s"
    assert RemoteSecrets.unpacked(old) == RemoteSecrets(Secret("t"), Secret("k"), Secret("s"))
