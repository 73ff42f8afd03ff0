"""docs/policies.md agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from lakebed.governance.policies import SYSTEM_TYPES, define_type
from lakebed.governance.policies.maintenance_content import CONFIG_OPTIONS
from lakebed.governance.policies.schemas import MAX_PARTS
from lakebed.wire.polaris.handlers.policy_types import NewTypeDocument

TEXT = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
EXAMPLES = re.findall(r"^```json ([^\n]+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("what", "example"), EXAMPLES, ids=[what for what, _ in EXAMPLES])
def test_examples_are_valid(what: str, example: str) -> None:
    if what in SYSTEM_TYPES:
        SYSTEM_TYPES[what].check_content(example)
    else:
        assert what == "POST policy-types"
        request = msgspec.json.decode(example, type=NewTypeDocument)
        define_type(request.name, request.schema, targets=tuple(request.targets or ()))


def test_every_option_is_documented() -> None:
    rows = re.findall(r"^\| `(system\.[a-z-]+)` \| (.*) \|$", TEXT, re.MULTILINE)
    named = {name: set(re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", options))) for name, options in rows}
    assert named == {name: set(options) for name, options in CONFIG_OPTIONS.items()}


def test_documented_limit_is_the_actual_one() -> None:
    assert f"at most {MAX_PARTS:,} parts" in TEXT
