"""Error codes: each error has a code, and the code decides whether clients retry."""

from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied, Fenced, LakebedError, Unavailable
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.wire.fluss.errors import UNKNOWN, error_code, failure_message

RETRIED = {1, 3, 9, 10, 11, 12, 14, 21, 25, 26, 28, 29, 44, 70, 72, 73}
"""The codes on which the Java client retries."""


@pytest.mark.parametrize("code", ErrorCode)
def test_java_client_retries_exactly_the_retriable_codes(code: ErrorCode) -> None:
    failure = FlussError(code)
    assert (error_code(failure) in RETRIED) == failure.is_retriable


def test_codes_are_unique() -> None:
    assert len({error_code(FlussError(code)) for code in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize(("error", "code"), [(AccessDenied("no"), 48), (Unavailable("later"), 26), (Fenced("old"), 12)])
def test_errors_of_other_packages_have_codes(error: LakebedError, code: int) -> None:
    assert error_code(error) == code
    assert failure_message(error).error_message == str(error)


def test_internal_errors_are_not_described() -> None:
    message = failure_message(LakebedError("a secret detail"))
    assert (message.error_code, message.error_message) == (UNKNOWN, "internal error")
