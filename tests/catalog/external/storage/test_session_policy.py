from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.external.storage.session_policy import MAX_CHARS, session_policy
from lakebed.core.errors import InvalidInput


def resources(text: str) -> list[str]:
    """The resources of keys that a policy allows."""
    document: dict[str, Any] = json.loads(text)
    return [
        resource
        for statement in document["Statement"]
        for resource in ([statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"])
        if "/" in resource
    ]


def actions(text: str) -> set[str]:
    return {action for statement in json.loads(text)["Statement"] for action in statement["Action"]}


def test_reader_gets_no_writing_action() -> None:
    text = session_policy("lake", ["wh/t/"], writes=False)
    assert actions(text) == {"s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:GetBucketLocation"}


def test_writer_gets_the_actions_that_engines_need() -> None:
    text = session_policy("lake", ["wh/t/"], writes=True)
    assert {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"} < actions(text)


def test_listing_is_limited_to_the_directories() -> None:
    document = json.loads(session_policy("lake", ["wh/t/", "data/t/"], writes=True))
    (listing,) = [each for each in document["Statement"] if "s3:ListBucket" in each["Action"]]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["data/t/*", "wh/t/*"]}}


@pytest.mark.parametrize("directory", ["wh/*/", "wh/?/", "wh/${aws:username}/"])
def test_wildcards_and_variables_in_names_are_literal(directory: str) -> None:
    (resource,) = resources(session_policy("lake", [directory], writes=False))
    escaped = directory.replace("$", "${$}").replace("*", "${*}").replace("?", "${?}")
    assert resource == f"arn:aws:s3:::lake/{escaped}*"


def test_sibling_with_the_same_beginning_is_not_covered() -> None:
    (resource,) = resources(session_policy("lake", ["wh/ns1/"], writes=False))
    assert resource == "arn:aws:s3:::lake/wh/ns1/*"


def test_partition_of_the_role_is_used() -> None:
    text = session_policy("lake", ["t/"], writes=False, partition="aws-cn")
    assert resources(text) == ["arn:aws-cn:s3:::lake/t/*"]


def test_kms_keys_are_allowed_for_the_operation() -> None:
    key = "arn:aws:kms:eu-west-1:1:key/k"
    reads, writes, decrypts = (
        session_policy("lake", ["t/"], writes=False, encryption_keys=[key]),
        session_policy("lake", ["t/"], writes=True, encryption_keys=[key]),
        session_policy("lake", ["t/"], writes=True, decryption_keys=[key]),
    )
    for text in (reads, decrypts):
        assert {each for each in actions(text) if each.startswith("kms:")} == {"kms:DescribeKey", "kms:Decrypt"}
    assert {"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey*"} < actions(writes)
    assert "kms:Decrypt" not in actions(session_policy("lake", ["t/"], writes=True))


@pytest.mark.parametrize("levels", [20, 40, 56])
def test_long_policy_is_compacted_without_widening_it(levels: int) -> None:
    directories = [f"{'namespace-level/' * levels}{name}/" for name in ("a", "b")]
    text = session_policy("lake", directories, writes=True)
    assert len(text) <= MAX_CHARS
    assert resources(text) == [f"arn:aws:s3:::lake/{directory}*" for directory in directories]
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} < actions(text)


def test_directories_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="do not fit into a session policy"):
        session_policy("lake", [f"{'x' * 1000}/{number}/" for number in range(3)], writes=True)


def test_policy_without_a_directory_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="require a directory"):
        session_policy("lake", [], writes=False)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30), min_size=1),
    st.booleans(),
)
def test_policies_cover_exactly_the_outermost_directories(names: list[str], writes: bool) -> None:
    directories = {f"{name.strip('/') or 'x'}/" for name in names}
    outermost = {one for one in directories if not any(one != other and one.startswith(other) for other in directories)}
    try:
        text = session_policy("lake", sorted(directories), writes=writes)
    except InvalidInput:
        return
    escapes = str.maketrans({"*": "${*}", "?": "${?}", "$": "${$}"})
    assert set(resources(text)) == {f"arn:aws:s3:::lake/{one.translate(escapes)}*" for one in outermost}
