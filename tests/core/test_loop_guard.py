from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.loop_guard import LoopGuard

OURS = LoopGuard(b"k" * 32)


def test_own_message_is_recognized() -> None:
    assert OURS.recognizes(OURS.proof_for("req_7"))
    assert LoopGuard(b"k" * 32).recognizes(OURS.proof_for("req_7")), "by every server with the same keys"


@given(st.text())
def test_forged_message_is_not_recognized(text: str) -> None:
    assert not OURS.recognizes(text)
    assert not OURS.recognizes(LoopGuard(b"x" * 32).proof_for(text))
    assert not OURS.recognizes(OURS.proof_for("req_7").replace("req_7", text)) or text == "req_7"
