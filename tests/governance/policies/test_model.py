from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput, InvalidName
from lakebed.governance.policies import AttachmentTarget, PolicyTargetKind, check_description, check_policy_name


@pytest.mark.parametrize("name", ["p", "Compact-Daily_2", "0", "-", "x" * 255])
def test_valid_policy_names(name: str) -> None:
    assert check_policy_name(name) == name


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "a/b", "x" * 256, "a\n"])
def test_invalid_policy_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_policy_name(name)


def test_descriptions_are_limited() -> None:
    assert check_description(None) is None
    assert check_description("") == ""
    assert check_description("ä" * 2048) == "ä" * 2048
    for description in ("ä" * 2049, "a\0b", "\udc80"):
        with pytest.raises(InvalidInput):
            check_description(description)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (AttachmentTarget(PolicyTargetKind.CATALOG), "catalog"),
        (AttachmentTarget(PolicyTargetKind.NAMESPACE, ("a", "b")), "namespace a.b"),
        (AttachmentTarget(PolicyTargetKind.TABLE, ("a", "t")), "table a.t"),
        (AttachmentTarget(PolicyTargetKind.VIEW, ("a", "v")), "view a.v"),
    ],
)
def test_targets_have_readable_names(target: AttachmentTarget, text: str) -> None:
    assert str(target) == text
