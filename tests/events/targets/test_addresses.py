from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.targets.addresses import parse_address, parse_brokers

PORTS = {"amqp": 5672, "amqps": 5671}


def test_url_is_parsed() -> None:
    found = parse_address("amqp://us%40er:p%3Aw@[::1]:99/v%2Fhost", "url", PORTS, credentials=True, path=True)
    assert (found.username, found.password, found.host, found.port, found.path) == (
        *("us@er", "p:w", "::1", 99, "/v%2Fhost"),
    )
    assert found.where == "amqp://[::1]:99"


def test_port_has_a_default() -> None:
    assert parse_address("amqps://broker", "url", PORTS, credentials=False).port == 5671


@pytest.mark.parametrize(
    "url",
    [
        *("", "amqp", "amqp://", "http://broker", "amqp://broker:0", "amqp://broker:x", "amqp://broker:70000"),
        *("amqp://broker/path", "amqp://broker?query", "amqp://broker#part", "amqp://user@broker", "amqp://bro ker"),
        *("amqp://[::1", "amqp://bröker", "amqp://" + "b" * 3000),
    ],
)
def test_invalid_url_is_rejected_without_its_value(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_address(url, "url", PORTS, credentials=False)
    assert raised.value.argument == "url"
    assert raised.value.value is None


def test_repr_contains_no_password() -> None:
    assert "hush" not in repr(parse_address("amqp://user:hush@broker", "url", PORTS, credentials=True))


@given(st.text() | st.text().map(lambda text: f"amqp://{text}"))
def test_arbitrary_url_parses_or_is_rejected(noise: str) -> None:
    with contextlib.suppress(InvalidInput):
        found = parse_address(noise, "url", PORTS, credentials=True, path=True, query=True)
        assert found.host
        assert 0 < found.port < 65536


def test_broker_list_is_parsed() -> None:
    assert parse_brokers("one:9092, two:9093,", "brokers") == ["one:9092", "two:9093"]


@pytest.mark.parametrize("brokers", ["", ",", "one", "one:", ":9092", "one:x", "one:0", "user@one:1", "kafka://one:1"])
def test_invalid_broker_list_is_rejected(brokers: str) -> None:
    with pytest.raises(InvalidInput):
        parse_brokers(brokers, "brokers")
