from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    check_secret,
    new_secret,
    signed_headers,
    verify,
)

SECRET = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
OTHER = Secret("whsec_" + base64.b64encode(b"o" * 32).decode())
NOW_MS = 1_614_265_330_000
BODY = b'{"test": 2432232314}'


def test_signature_matches_the_published_example() -> None:
    assert signed_headers(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", NOW_MS, BODY) == {
        ID_HEADER: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        TIMESTAMP_HEADER: "1614265330",
        SIGNATURE_HEADER: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.text(min_size=1, max_size=40), st.binary(max_size=200), st.integers(0, 4_000_000_000_000))
def test_signature_verifies(message_id: str, body: bytes, now_ms: int) -> None:
    headers = signed_headers(SECRET, message_id, now_ms, body)
    verified = verify([SECRET], headers, body, now_ms=now_ms)
    assert verified == (message_id, now_ms // 1000)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_changed_body_does_not_verify(body: bytes, other: bytes) -> None:
    headers = signed_headers(SECRET, "m", NOW_MS, body)
    if body == other:
        assert verify([SECRET], headers, other, now_ms=NOW_MS)
    else:
        with pytest.raises(Unauthenticated, match="signature"):
            verify([SECRET], headers, other, now_ms=NOW_MS)


@given(st.dictionaries(st.sampled_from([ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER]), st.text(max_size=50)))
def test_malformed_signatures_are_rejected(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        verify([SECRET], headers, BODY, now_ms=NOW_MS)


@pytest.mark.parametrize("name", [ID_HEADER, TIMESTAMP_HEADER])
def test_changed_id_timestamp_or_body_is_rejected(name: str) -> None:
    headers = signed_headers(SECRET, "m", NOW_MS, BODY)
    headers[name] += "1"
    with pytest.raises(Unauthenticated, match="signature"):
        verify([SECRET], headers, BODY, now_ms=NOW_MS)


def test_timestamps_outside_the_tolerance_are_rejected() -> None:
    headers = signed_headers(SECRET, "m", NOW_MS, BODY)
    for away_ms in (-300_000, 300_000):
        assert verify([SECRET], headers, BODY, now_ms=NOW_MS + away_ms)
    for away_ms in (-301_000, 301_000):
        with pytest.raises(Unauthenticated, match="outside the tolerance"):
            verify([SECRET], headers, BODY, now_ms=NOW_MS + away_ms)


def test_invalid_signature_does_not_reveal_the_clock() -> None:
    headers = signed_headers(OTHER, "m", 0, BODY)
    with pytest.raises(Unauthenticated, match="signature"):
        verify([SECRET], headers, BODY, now_ms=NOW_MS)


def test_one_matching_secret_and_signature_suffices() -> None:
    headers = signed_headers(OTHER, "m", NOW_MS, BODY)
    assert verify([SECRET, OTHER], headers, BODY, now_ms=NOW_MS)
    headers[SIGNATURE_HEADER] = f"v1a,x v1,??? {headers[SIGNATURE_HEADER]}"
    assert verify([OTHER], headers, BODY, now_ms=NOW_MS)
    with pytest.raises(Unauthenticated):
        verify([], headers, BODY, now_ms=NOW_MS)


def test_header_names_are_case_insensitive() -> None:
    headers = {name.title(): value for name, value in signed_headers(SECRET, "m", NOW_MS, BODY).items()}
    assert verify([SECRET], headers, BODY, now_ms=NOW_MS).id == "m"


def test_new_secrets_are_valid_and_unique() -> None:
    first, second = new_secret(), new_secret()
    check_secret(first)
    assert first != second


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "whsec_!!!", "whsec_" + base64.b64encode(b"x" * 23).decode(), base64.b64encode(b"x" * 32).decode()],
)
def test_malformed_secret_is_rejected_and_not_quoted(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected whsec_") as caught:
        check_secret(Secret(text))
    assert not text.strip("whsec_") or text not in str(caught.value)
