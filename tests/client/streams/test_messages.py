from __future__ import annotations

import pytest

from lakebed.client.streams.messages import content, messages, number, read_fields, text, write_fields


@pytest.mark.parametrize("noise", [b"\x80", b"\x0a\x05ab", b"\x0f\x01", b"\xff" * 12])
def test_malformed_message_is_rejected(noise: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_fields(noise)


def test_fields_round_trip() -> None:
    fields = read_fields(write_fields({1: 300, 2: "text", 3: b"", 4: None, 5: -1, 9: True}))
    assert (number(fields, 1), text(fields, 2), text(fields, 3), number(fields, 5), number(fields, 9)) == (
        300,
        b"text",
        b"",
        -1,
        1,
    )
    assert 4 not in fields
    assert text(fields, 4) == b""


def test_nested_bytes_are_not_copied() -> None:
    message = write_fields({1: write_fields({2: write_fields({8: b"records"})})})
    (outer,) = messages(read_fields(message), 1)
    (inner,) = messages(outer, 2)
    found = content(inner, 8)
    assert bytes(found) == b"records"
    assert found.obj is message


def test_field_of_a_different_type_is_rejected() -> None:
    fields = read_fields(write_fields({1: 300, 2: "text"}))
    with pytest.raises(ValueError, match="field is not bytes"):
        text(fields, 1)
    with pytest.raises(ValueError, match="field is not an integer"):
        number(fields, 2)
    with pytest.raises(ValueError, match="field is not a message"):
        list(messages(fields, 1))
