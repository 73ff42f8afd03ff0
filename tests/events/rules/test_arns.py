from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.rules import TargetArn, parse_arn

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=":"), min_size=1, max_size=10)


@given(WORDS, WORDS, WORDS | st.just(""), st.sampled_from(["lakebed", "minio", "rustfs"]))
def test_arn_round_trips(name: str, kind: str, region: str, partition: str) -> None:
    arn = TargetArn(name, kind, region, partition)
    assert parse_arn(str(arn)) == arn
    assert arn.target_id == f"{name}:{kind}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "arn",
        "arn:aws:sqs:us-east-1:1:webhook",
        "arn:lakebed:sns:us-east-1:1:webhook",
        "arn:lakebed:sqs:us-east-1::webhook",
        "arn:lakebed:sqs:us-east-1:1:",
        "arn:lakebed:sqs:us-east-1:1",
        "arn:lakebed:sqs:us-east-1:1:webhook:more",
        "ARN:lakebed:sqs:us-east-1:1:webhook",
        "arn:lakebed:sqs:us-east-1:" + "x" * 1024 + ":webhook",
    ],
)
def test_invalid_arn_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="ARN"):
        parse_arn(text)


@given(st.text(max_size=60))
def test_arbitrary_text_parses_or_is_rejected(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert str(parse_arn(text)) == text
