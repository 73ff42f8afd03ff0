"""Options of an Azure store."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.storage.azure import AzureOptions

CLIENT = {"tenant_id": "t", "client_id": "c", "client_secret": Secret("hidden")}


def test_endpoint_is_the_account_of_the_public_cloud_by_default() -> None:
    options = AzureOptions("account", "container")
    assert options.account_url == "https://account.blob.core.windows.net"
    assert options.uses_tls
    local = AzureOptions("account", "container", endpoint="http://127.0.0.1:10000/account/", allow_http=True)
    assert local.account_url == "http://127.0.0.1:10000/account"
    assert not local.uses_tls


def test_prefix_is_joined_with_one_slash() -> None:
    assert AzureOptions("account", "container", prefix="/a/b//").key_prefix == "a/b/"
    assert AzureOptions("account", "container").key_prefix == ""


@pytest.mark.parametrize("container", ["abc", "a-b-c", "$root", "$web", "0" * 63])
def test_container_names_of_azure_are_accepted(container: str) -> None:
    AzureOptions("account", container, **CLIENT)  # type: ignore[arg-type]  # values of one type each


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"account": "UPPER"}, "account"),
        ({"account": "ab"}, "account"),
        ({"account": "a.b/c"}, "account"),
        ({"container": "ab"}, "container"),
        ({"container": "a--b"}, "container"),
        ({"container": "-ab"}, "container"),
        ({"container": "a/b"}, "container"),
        ({"container": "0" * 64}, "container"),
        ({"prefix": "a/../b"}, "prefix"),
        ({"endpoint": "http://127.0.0.1:10000/account"}, "endpoint"),
        ({"endpoint": "https://host/?sig=password"}, "endpoint"),
        ({"authority": "http://login.example.org", "allow_http": True}, "authority"),
        ({"account_key": Secret("")}, "account_key"),
        ({"sas_token": Secret("")}, "sas_token"),
        ({"account_key": Secret("hidden"), "sas_token": Secret("hidden")}, "sas_token"),
        ({"account_key": Secret("hidden"), **CLIENT}, "account_key"),
        ({"sas_token": Secret("hidden"), **CLIENT}, "sas_token"),
        ({"tenant_id": "t", "client_id": "c"}, "client_secret"),
        ({"client_id": "c", "client_secret": Secret("hidden")}, "tenant_id"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"read_timeout_seconds": 0}, "read_timeout_seconds"),
    ],
)
def test_invalid_option_is_rejected_by_name(wrong: dict[str, Any], field: str) -> None:  # Any: wrong on purpose
    with pytest.raises(InvalidSetting) as refused:
        AzureOptions(**{"account": "account", "container": "container", **wrong})
    assert str(refused.value).startswith(f"{field}: ")
    assert refused.value.argument == field
    assert "hidden" not in str(refused.value)
    assert "password" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    shown = repr(AzureOptions("account", "container", account_key=Secret("hidden")))
    assert "hidden" not in shown
