from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.core.operations import Operation, OperationFamily
from lakebed.governance.listeners import ENTRY_POINT_GROUP, load_listener

from .intents import an_intent

HERE = "tests.governance.listeners.samples"


@pytest.mark.parametrize("attribute", ["Plain", "create", "ready"])
async def test_classes_functions_and_objects_are_listeners(attribute: str) -> None:
    listener = load_listener(f"{HERE}:{attribute}")
    assert listener.name == f"{HERE}:{attribute}"
    assert listener.operations == frozenset(Operation)
    assert await listener.before(an_intent()) == "on mondays never"
    assert await listener.before(an_intent(name="other")) is None


async def test_asynchronous_listener_is_awaited_for_its_operations_only() -> None:
    listener = load_listener(f"{HERE}:Asynchronous")
    assert await listener.before(an_intent()) == "not now"
    assert Operation.DROP_VIEW in listener.operations
    assert {one for one in Operation if one.family is OperationFamily.POLICY} < listener.operations
    assert Operation.CREATE_TABLE not in listener.operations


async def test_name_without_a_colon_is_an_entry_point() -> None:
    points = [EntryPoint("guard", f"{HERE}:Plain", ENTRY_POINT_GROUP)]
    assert await load_listener("guard", points).before(an_intent()) == "on mondays never"
    with pytest.raises(InvalidSetting, match=r"listeners.python: sentry: neither an entry point .* known=guard"):
        load_listener("sentry", points)
    with pytest.raises(InvalidSetting, match="known=none"):
        load_listener("guard")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:Listener", "ModuleNotFoundError"),
        (f"{HERE}:Missing", "AttributeError"),
        (f"{HERE}:NotAListener", "has no method `before`"),
        (f"{HERE}:Broken", "cannot be created: RuntimeError: no configuration"),
        (f"{HERE}:Mistaken", "DROP_EVERYTHING"),
        (":", "cannot be loaded"),
    ],
)
def test_invalid_listeners_are_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^listeners\.python: ") as caught:
        load_listener(name)
    assert message in str(caught.value)
