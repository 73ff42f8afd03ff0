from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidSetting
from lakebed.core.operations import Operation
from lakebed.core.settings import (
    ListenerHook,
    ListenersSettings,
    SettingsFile,
    load_settings,
)
from lakebed.core.webhooks import new_secret
from lakebed.server.events.governance_events import read_listeners

SECRET = new_secret()
GOOD = f"""
[listeners]
python = ["tests.governance.listeners.samples:Asynchronous"]
after_reads = ["LOAD_*"]

[listeners.hooks.review]
url = "https://review.example/ask"
secret = "{SECRET.reveal()}"
operations = ["DROP_TABLE"]
timeout = "2s"
on_failure = "allow"
"""


def test_listeners_follow_the_order_of_the_settings() -> None:
    settings = load_settings(file=SettingsFile("lakebed.toml", GOOD)).settings
    python, hook = read_listeners(settings.listeners, ManualClock())
    assert python.name == "tests.governance.listeners.samples:Asynchronous"
    assert (hook.name, hook.operations) == ("review", frozenset({Operation.DROP_TABLE}))
    assert SECRET.reveal() not in repr(settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('operations = ["DROP_TABLE"]', 'operations = ["DROP"]'),
            "listeners.hooks.review.operations: unknown operation",
        ),
        (("https://review.example", "http://review.example"), "listeners.hooks.review.url: plain HTTP"),
        (
            ("https://review.example", "https://me:word@review.example"),
            "listeners.hooks.review.url: must not contain credentials",
        ),
        (('["LOAD_*"]', '["DROP_TABLE"]'), "listeners.after_reads: DROP_TABLE is not a read"),
        (("hooks.review", 'hooks."a b"'), "expected a name"),
        (('timeout = "2s"', 'timeout = "2h"'), "timeout: expected a duration"),
        (('"allow"', '"shrug"'), "on_failure: expected one of refuse, allow"),
        ((SECRET.reveal(), "hunter2"), "listeners.hooks.review.secret: expected whsec_"),
    ],
)
def test_invalid_listener_settings_are_rejected_by_path(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        load_settings(file=SettingsFile("lakebed.toml", GOOD.replace(*change)))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_plain_http_requires_allow_http() -> None:
    allowed = GOOD.replace("[listeners]", "[listeners]\nallow_http = true")
    loaded = load_settings(file=SettingsFile("lakebed.toml", allowed.replace("https://", "http://")))
    assert loaded.settings.listeners.hooks["review"].url.startswith("http://")


def test_hook_without_operations_receives_all() -> None:
    hook = ListenerHook("https://review.example/", SECRET)
    (found,) = read_listeners(ListenersSettings(hooks={"h": hook}), ManualClock())
    assert found.operations == frozenset(Operation)
