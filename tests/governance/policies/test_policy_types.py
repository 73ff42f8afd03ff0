from __future__ import annotations

import json

import pytest

from lakebed.core.errors import InvalidInput, InvalidName, InvalidPolicy
from lakebed.governance.policies import SYSTEM_TYPES, PolicyTargetKind, PolicyType, define_type


def test_predefined_types() -> None:
    assert list(SYSTEM_TYPES) == [
        "lakebed.column-mask",
        "lakebed.row-filter",
        "system.data-compaction",
        "system.metadata-compaction",
        "system.orphan-file-removal",
        "system.snapshot-expiry",
    ]
    for name, kind in SYSTEM_TYPES.items():
        if name.startswith("lakebed."):
            continue
        assert (kind.name, kind.inheritable, kind.targets) == (name, True, tuple(PolicyTargetKind))
        assert kind.is_system
        kind.check_content('{"enable": true}')
        assert not kind.is_cumulative
        with pytest.raises(InvalidPolicy):
            kind.check_content(None)


@pytest.mark.parametrize(
    ("name", "body"), [("lakebed.row-filter", {"filter": False}), ("lakebed.column-mask", {"columns": {"a": "null"}})]
)
def test_restricting_types_are_cumulative_and_not_for_views(name: str, body: dict[str, object]) -> None:
    kind = SYSTEM_TYPES[name]
    assert kind.is_system
    assert kind.is_cumulative
    assert kind.inheritable
    assert kind.targets == (PolicyTargetKind.CATALOG, PolicyTargetKind.NAMESPACE, PolicyTargetKind.TABLE)
    kind.check_content(json.dumps({"enable": True, "restricts": {"everyone": True}, **body}))
    with pytest.raises(InvalidPolicy):
        kind.check_content('{"enable": true}')


def test_user_defined_type() -> None:
    kind = define_type(
        "user.retention",
        {"required": ["days"]},
        inheritable=False,
        targets=(PolicyTargetKind.VIEW, PolicyTargetKind.TABLE, PolicyTargetKind.VIEW),
        description="how long",
        now_ms=7,
    )
    assert kind == PolicyType(
        "user.retention",
        False,
        (PolicyTargetKind.TABLE, PolicyTargetKind.VIEW),
        "how long",
        b'{"required":["days"]}',
        7,
    )
    assert not kind.is_system
    kind.check_content('{"days": 1}')
    with pytest.raises(InvalidPolicy) as refused:
        kind.check_content('{"enable": true}')
    assert refused.value.argument == "$.days"


@pytest.mark.parametrize("name", ["retention", "user.a", "systematic", "a.system", "x" * 128, "0"])
def test_valid_type_names(name: str) -> None:
    assert define_type(name, {}).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lakebed",
        "lakebed.mine",
        "Lakebed.row-filter",
        "system",
        "system.mine",
        "System.Mine",
        "SYSTEM.data-compaction",
        ".a",
        "-a",
        "a b",
        "ä",
        "x" * 129,
    ],
)
def test_invalid_or_reserved_type_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        define_type(name, {})


def test_type_requires_a_target() -> None:
    with pytest.raises(InvalidInput):
        define_type("a", {}, targets=())
    with pytest.raises(InvalidInput):
        define_type("a", {}, description="a\0b")
    with pytest.raises(InvalidPolicy):
        define_type("a", {"type": 5})
