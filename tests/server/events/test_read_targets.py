"""Targets in the settings."""

from __future__ import annotations

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import LoadedSettings, SettingsFile, describe, load_settings
from lakebed.core.webhooks import new_secret
from lakebed.events.delivery import TargetOrigin, TargetRecord, parse_subscription
from lakebed.events.targets.pipeline import ArrivedFile
from lakebed.events.targets.webhook import WebhookSettings
from lakebed.server.events.targets import read_targets, target_types

SECRET = new_secret().reveal()
GOOD = f"""
[targets.named.warehouse]
type = "webhook"
kinds = ["Table*", "AFTER_DROP_VIEW"]
subject = "lake"
audit = true
requests = true
form = "lakebed"
paused = true

[targets.named.warehouse.settings]
endpoint = "https://receiver.example/events"
secret = "{SECRET}"
skip_tls_verify = true
"""


def load(text: str = GOOD) -> LoadedSettings:
    return load_settings(file=SettingsFile("lakebed.toml", text))


async def nowhere(file: ArrivedFile) -> None:
    raise AssertionError(file)


def read(text: str = GOOD) -> dict[str, TargetRecord]:
    settings = load(text).settings.targets
    return read_targets(settings, target_types(settings, ManualClock(), nowhere))


def test_targets_are_read_from_settings() -> None:
    assert read() == {
        "warehouse:webhook": TargetRecord(
            "warehouse",
            "webhook",
            WebhookSettings(endpoint="https://receiver.example/events", secret=SECRET, skip_tls_verify=True),
            parse_subscription(["Table*", "AFTER_DROP_VIEW"], "lake", audit=True, requests=True),
            "lakebed",
            True,
            TargetOrigin.SETTINGS,
        )
    }


def test_repr_of_settings_masks_secrets() -> None:
    loaded = load()
    for text in (repr(loaded.settings), describe(loaded), repr(read())):
        assert SECRET not in text
    assert "skip_tls_verify" in describe(loaded)


def test_target_can_be_set_in_the_environment() -> None:
    spelled = f'{{type = "webhook", settings = {{endpoint = "http://127.0.0.1/", secret = "{SECRET}"}}}}'
    settings = load_settings(environ={"LAKEBED_TARGETS__NAMED__R": spelled}).settings.targets
    (record,) = read_targets(settings, target_types(settings, ManualClock(), nowhere)).values()
    assert record.settings == WebhookSettings(endpoint="http://127.0.0.1/", secret=SECRET)


@pytest.mark.parametrize(
    "spelled", ["{type = hunter2", "hunter2", '["hunter2"]', "{type = 1, settings = {a = hunter2}}"]
)
def test_invalid_environment_value_is_not_quoted(spelled: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^targets\.named\.r: ") as caught:
        load_settings(environ={"LAKEBED_TARGETS__NAMED__R": spelled})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("https://receiver", "http://receiver"), "targets.named.warehouse.settings.endpoint: endpoint must be https"),
        (('["Table*", "AFTER_DROP_VIEW"]', "[]"), "targets.named.warehouse.kinds: subject requires kinds"),
        (
            ('["Table*", "AFTER_DROP_VIEW"]', '["a*b"]'),
            "targets.named.warehouse.kinds: kind must be a comma-separated list",
        ),
        (('form = "lakebed"', 'form = "haiku"'), "targets.named.warehouse.form: form must be one of"),
        (('type = "webhook"', 'type = "pigeon"'), "targets.named.warehouse.type: unknown target type"),
        (('type = "webhook"', ""), "targets.named.warehouse.type: missing"),
        (("skip_tls_verify = true", "colour = 1"), "targets.named.warehouse.settings.colour: "),
        (("skip_tls_verify = true", "skip_tls_verify = 7"), "targets.named.warehouse.settings.skip_tls_verify: "),
        (("skip_tls_verify = true", "skip_tls_verify = {}"), "targets.named.warehouse: settings: expected a text"),
        (("audit = true", "urgent = true"), "targets.named.warehouse: no such setting: urgent"),
        ((SECRET, "hunter2"), "targets.named.warehouse.settings.secret: expected whsec_"),
        (("named.warehouse", 'named."a b"'), "expected a name"),
    ],
)
def test_invalid_target_settings_are_rejected_by_path(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        read(GOOD.replace(*change))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_plain_http_requires_allow_http() -> None:
    assert read("[targets]\nallow_http = true\n" + GOOD.replace("https://", "http://"))
