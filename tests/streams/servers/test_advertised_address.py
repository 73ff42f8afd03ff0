"""The address that other stream servers send clients to."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.core.settings import HostPort, MetaSettings, ServerSettings, Settings, StreamsSettings
from lakebed.streams.servers.advertised_address import advertised_address
from tests.fixtures.server import launch_server
from tests.server.running_processes import GUARD_SECONDS

SHARED = MetaSettings(url=Secret("postgresql://lake@db/lake"))


def settings(listen: str, advertise: str = "", meta: MetaSettings = SHARED) -> Settings:
    streams = StreamsSettings(listen=HostPort.parse(listen), advertise=HostPort.parse(advertise) if advertise else None)
    return Settings(server=ServerSettings(), meta=meta, streams=streams)


def derived(settings_: Settings, *, name: str = "lake-1.example", unknown: str = "") -> str:
    def resolve(host: str, port: int) -> object:
        if host == unknown:
            raise socket.gaierror(-2, "Name or service not known")
        return []

    return str(advertised_address(settings_, 9123, machine_name=lambda: name, resolve=resolve))


def test_configured_address_is_used() -> None:
    assert derived(settings("0.0.0.0:9123", "lake.example:443")) == "lake.example:443"


@pytest.mark.parametrize("listen", ["10.0.0.7:0", "10.0.0.7:9123"])
def test_listen_address_is_used_unless_it_is_a_wildcard(listen: str) -> None:
    assert derived(settings(listen)) == "10.0.0.7:9123"


@pytest.mark.parametrize("listen", ["0.0.0.0:9123", "[::]:9123", ":9123"])
def test_machine_name_replaces_a_wildcard_address(listen: str) -> None:
    assert derived(settings(listen)) == "lake-1.example:9123"


def test_unresolvable_name_is_rejected_with_the_setting_to_change() -> None:
    with pytest.raises(InvalidSetting, match=r"^streams\.advertise: .*does not resolve.*lake\.exmaple:9123"):
        derived(settings("0.0.0.0:9123", "lake.exmaple:9123"), unknown="lake.exmaple")
    with pytest.raises(InvalidSetting, match=r"^streams\.advertise: not set.*Set streams\.advertise"):
        derived(settings("0.0.0.0:9123"), unknown="lake-1.example")


@pytest.mark.parametrize(
    "name",
    ["localhost", "localhost.localdomain", "Localhost6.localdomain6", "lake.localhost", "ip6-localhost", "127.0.0.1"],
)
def test_loopback_machine_name_is_rejected_with_a_shared_metadata_store(name: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"^streams\.advertise: not set.*{re.escape(name)}"):
        derived(settings("0.0.0.0:9123"), name=name)


def test_single_server_needs_no_resolvable_name() -> None:
    single = settings("0.0.0.0:9123", meta=MetaSettings())
    assert derived(single, name="nowhere", unknown="nowhere") == "nowhere:9123"


@pytest.mark.parametrize("address", ["0.0.0.0:9123", "[::]:9123", "127.0.0.1:0"])
def test_server_with_an_unusable_advertised_address_does_not_start(tmp_path: Path, address: str) -> None:
    server = launch_server(
        tmp_path / "data", "--streams-listen", "127.0.0.1:0", "--set", f"streams.advertise={address}", workers=1
    )
    assert server.process.wait(GUARD_SECONDS) != 0
    assert "streams.advertise: clients cannot connect to a wildcard address or port 0" in server.log_text()


def test_server_with_an_unresolvable_advertised_name_does_not_start(tmp_path: Path) -> None:
    server = launch_server(
        tmp_path / "data",
        "--streams-listen",
        "127.0.0.1:0",
        "--set",
        "streams.advertise=no-such.invalid:9123",
        workers=1,
    )
    assert server.process.wait(GUARD_SECONDS) != 0
    assert "streams.advertise: the name does not resolve" in server.log_text()
