"""Known actions include all that the server authorizes; actions of other AWS services are accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest

import lakebed
from lakebed.catalog.access.authorization import Action, ServerAction
from lakebed.governance.policy_language.actions import KNOWN_ACTIONS, action_problem
from lakebed.governance.rbac.administrator import action_name
from lakebed.governance.rbac.operations import MANAGEMENT_OPERATIONS
from lakebed.streams.authorization import StreamOperation

_LITERAL = re.compile(r'"((?:s3|s3tables|sts|lakebed|streams):[A-Z][A-Za-z]+)"')
_NO_ACTIONS = {
    # Names of events and condition keys that look like actions.
    "lakebed:Task",
    *(f"lakebed:Task{what}" for what in ("Planned", "Started", "Succeeded", "Failed", "Dead", "Redriven", "Withdrawn")),
    "s3:Get",
    "s3:IntelligentTiering",
    "s3:LifecycleTransition",
}


def _all_known() -> frozenset[str]:
    return frozenset[str]().union(*KNOWN_ACTIONS.values())


def _authorized() -> Iterator[str]:
    yield from (action.value for action in Action)
    yield from (action.value for action in ServerAction)
    yield from (f"streams:{need}" for need in StreamOperation)
    yield from map(action_name, MANAGEMENT_OPERATIONS)


@pytest.mark.parametrize("action", sorted(set(_authorized())))
def test_authorized_actions_are_known(action: str) -> None:
    assert action in _all_known()


def test_actions_written_in_the_source_are_known() -> None:
    from lakebed.governance.policy_language.condition_keys import key_problem

    found = {
        text
        for path in Path(lakebed.__file__).parent.rglob("*.py")
        if path.name not in ("names.py", "forms.py", "actions.py")
        for text in _LITERAL.findall(path.read_text())
    }
    assert len(found) > 100
    unknown = found - _all_known() - _NO_ACTIONS
    assert {text for text in unknown if key_problem(text.lower()) is not None} == set()


def test_known_actions_are_accepted() -> None:
    assert [action for action in sorted(_all_known()) if action_problem(action) is not None] == []


def test_no_aws_service_counts_as_a_misspelling() -> None:
    loader = botocore.session.get_session().get_component("data_loader")
    services: set[str] = set()
    for name in loader.list_available_services("service-2"):
        metadata = loader.load_service_model(name, "service-2")["metadata"]
        services |= {name, metadata["endpointPrefix"], metadata.get("signingName", name)}
    foreign = services - KNOWN_ACTIONS.keys()
    assert len(foreign) > 300
    assert [service for service in sorted(foreign) if action_problem(f"{service}:Anything") is not None] == []


@pytest.mark.parametrize("service", ["s3tables", "sts"])
def test_aws_operations_are_known(service: str) -> None:
    loader = botocore.session.get_session().get_component("data_loader")
    operations = loader.load_service_model(service, "service-2")["operations"]
    assert {f"{service}:{name}" for name in operations} <= KNOWN_ACTIONS[service]
