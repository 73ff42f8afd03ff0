from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.net.hosts import AllowedHosts


def allowed(patterns: list[str]) -> AllowedHosts:
    return AllowedHosts(patterns, setting="federation.hosts")


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
def test_listed_hosts_are_allowed(patterns: list[str], uri: str) -> None:
    allowed(patterns).check(uri)


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
def test_unlisted_hosts_are_rejected(patterns: list[str], uri: str) -> None:
    with pytest.raises(InvalidInput, match=r"federation\.hosts"):
        allowed(patterns).check(uri)


@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1), st.integers(1, 65535))
def test_host_matches_its_exact_name_only(host: str, port: int) -> None:
    uri = f"http://{host}.test:{port}/x"
    allowed([f"{host}.test"]).check(uri)
    allowed([f"{host}.test:{port}"]).check(uri)
    with pytest.raises(InvalidInput):
        allowed([f"x{host}.test", f"{host}.test:{port % 65535 + 1}"]).check(uri)
