from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.events.targets.addresses import parse_address, parse_brokers

PORTS = {"amqp": 5672, "amqps": 5671}


def test_all_parts_are_found() -> None:
    found = parse_address("amqp://us%40er:p%3Aw@[::1]:99/v%2Fhost", "url", PORTS, credentials=True, path=True)
    assert (found.username, found.password, found.host, found.port, found.path) == (
        *("us@er", "p:w", "::1", 99, "/v%2Fhost"),
    )
    assert found.where == "amqp://[::1]:99"


def test_a_port_has_a_default() -> None:
    assert parse_address("amqps://broker", "url", PORTS, credentials=False).port == 5671


@pytest.mark.parametrize(
    "url",
    [
        *("", "amqp", "amqp://", "http://broker", "amqp://broker:0", "amqp://broker:x", "amqp://broker:70000"),
        *("amqp://broker/path", "amqp://broker?query", "amqp://broker#part", "amqp://user@broker", "amqp://bro ker"),
        *("amqp://[::1", "amqp://bröker", "amqp://" + "b" * 3000),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_address(url, "url", PORTS, credentials=False)
    assert refused.value.argument == "url"
    assert refused.value.value is None


def test_a_repr_does_not_show_the_password() -> None:
    assert "hush" not in repr(parse_address("amqp://user:hush@broker", "url", PORTS, credentials=True))


@given(st.text() | st.text().map(lambda text: f"amqp://{text}"))
def test_noise_is_refused_or_taken(noise: str) -> None:
    with contextlib.suppress(InvalidInput):
        found = parse_address(noise, "url", PORTS, credentials=True, path=True, query=True)
        assert found.host
        assert 0 < found.port < 65536


def test_brokers_are_a_list() -> None:
    assert parse_brokers("one:9092, two:9093,", "brokers") == ["one:9092", "two:9093"]


@pytest.mark.parametrize("brokers", ["", ",", "one", "one:", ":9092", "one:x", "one:0", "user@one:1", "kafka://one:1"])
def test_what_is_no_list_of_brokers_is_refused(brokers: str) -> None:
    with pytest.raises(InvalidInput):
        parse_brokers(brokers, "brokers")
