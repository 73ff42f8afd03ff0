"""Every reason has a number, and clients try again by it exactly where it makes sense."""

from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied, Fenced, LakebedError, Unavailable
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.wire.fluss.errors import UNKNOWN, error_code, failure_message

RETRIED = {1, 3, 9, 10, 11, 12, 14, 21, 25, 26, 28, 29, 44, 70, 72, 73}
"""The numbers on which the Java client tries again."""


@pytest.mark.parametrize("reason", ErrorCode)
def test_every_reason_has_a_number_of_the_right_kind(reason: ErrorCode) -> None:
    failure = FlussError(reason)
    assert (error_code(failure) in RETRIED) == failure.is_retriable


def test_no_two_reasons_have_one_number() -> None:
    assert len({error_code(FlussError(reason)) for reason in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize(("error", "code"), [(AccessDenied("no"), 48), (Unavailable("later"), 26), (Fenced("old"), 12)])
def test_what_other_parts_raise(error: LakebedError, code: int) -> None:
    assert error_code(error) == code
    assert failure_message(error).error_message == str(error)


def test_what_nobody_foresaw_is_not_told() -> None:
    message = failure_message(LakebedError("a secret detail"))
    assert (message.error_code, message.error_message) == (UNKNOWN, "internal error")
