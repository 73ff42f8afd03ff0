from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.targets.failures import MAX_REASON_CHARS, describe_error

secrets = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x2FF, exclude_categories=["Cc", "Zs"]), min_size=8)


@given(secrets, st.text(max_size=40), st.text(max_size=40))
def test_secrets_are_redacted_plain_and_encoded(secret: str, before: str, after: str) -> None:
    for form in (secret, quote(secret, safe="")):
        reason = describe_error(ConnectionError(f"{before}{form}{after}"), [secret])
        assert form not in reason.replace("***", "")
        assert len(reason) <= MAX_REASON_CHARS
        assert "\n" not in reason


def test_overlapping_secrets_are_redacted_completely() -> None:
    assert describe_error(ValueError("abcdef abc"), ["abc", "abcdef", ""]) == "ValueError: *** ***"


def test_error_without_message_is_described_by_class() -> None:
    assert describe_error(TimeoutError(), []) == "TimeoutError: no details"
