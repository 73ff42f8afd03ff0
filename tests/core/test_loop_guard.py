from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.loop_guard import OwnMessages

OURS = OwnMessages(b"k" * 32)


def test_a_message_of_ours_is_known() -> None:
    assert OURS.are_proven_by(OURS.prove("req_7"))
    assert OwnMessages(b"k" * 32).are_proven_by(OURS.prove("req_7")), "by every server with the same keys"


@given(st.text())
def test_nobody_else_can_pass_for_one(text: str) -> None:
    assert not OURS.are_proven_by(text)
    assert not OURS.are_proven_by(OwnMessages(b"x" * 32).prove(text))
    assert not OURS.are_proven_by(OURS.prove("req_7").replace("req_7", text)) or text == "req_7"
