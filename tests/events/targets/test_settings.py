"""Validation of target settings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.core.errors import InvalidInput
from lakebed.events.targets.mysql import MySqlDsn
from lakebed.events.targets.registry import load_target_type

GOOD: dict[str, dict[str, Any]] = {
    "amqp": {"url": "amqp://broker", "exchange": "events", "routing_key": "lakebed"},
    "elasticsearch": {"url": "https://search:9200", "index": "events"},
    "kafka": {"brokers": "one:9092,two:9092", "topic": "events"},
    "mqtt": {"broker": "mqtt://broker", "topic": "events/lakebed"},
    "mysql": {"dsn_string": "user:pw@tcp(host:3306)/db?tls=true"},
    "nats": {"address": "nats://broker", "subject": "events.lakebed"},
    "postgres": {"dsn_string": "postgres://user:pw@host/db?search_path=events", "table": "events"},
    "pulsar": {"broker": "pulsar+ssl://broker", "topic": "persistent://public/default/events"},
    "redis": {"url": "rediss://:pw@host:6379/2"},
}

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("amqp", {"url": "http://broker"}, "url"),
    ("amqp", {"routing_key": ""}, "routing_key"),
    ("amqp", {"exchange": "e" * 256}, "exchange"),
    ("amqp", {"username": "user"}, "password"),
    ("amqp", {"url": "amqp://user:pw@broker", "username": "user", "password": "pw"}, "username"),
    ("amqp", {"tls_ca": "/ca.pem"}, "url"),
    ("elasticsearch", {"index": "Upper"}, "index"),
    ("elasticsearch", {"url": "https://user:pw@search"}, "url"),
    ("elasticsearch", {"format": "log"}, "format"),
    ("kafka", {"brokers": "one"}, "brokers"),
    ("kafka", {"acks": "0"}, "acks"),
    ("kafka", {"topic": ""}, "topic"),
    ("kafka", {"sasl_username": "user", "sasl_password": "pw"}, "tls_enable"),
    ("kafka", {"tls_enable": True, "sasl_username": "user"}, "sasl_password"),
    ("kafka", {"sasl_mechanism": "GSSAPI"}, "sasl_mechanism"),
    ("kafka", {"tls_ca": "/ca.pem"}, "tls_enable"),
    ("mqtt", {"topic": "events/#"}, "topic"),
    ("mqtt", {"qos": 0}, "qos"),
    ("mqtt", {"qos": 2}, "qos"),
    ("mqtt", {"broker": "mqtt://user:pw@broker"}, "broker"),
    ("mqtt", {"password": "pw"}, "username"),
    ("mysql", {"dsn_string": "host/db"}, "dsn_string"),
    ("mysql", {"dsn_string": "user:pw@tcp(host:3306)/db?charset=latin1"}, "dsn_string"),
    ("mysql", {"dsn_string": "user:pw@tcp(host:99999)/db"}, "dsn_string"),
    ("mysql", {"table": "events; DROP TABLE x"}, "table"),
    ("mysql", {"format": "both"}, "format"),
    ("mysql", {"max_open_connections": 0}, "max_open_connections"),
    ("nats", {"subject": "events.*"}, "subject"),
    ("nats", {"subject": "events..x"}, "subject"),
    ("nats", {"username": "u", "password": "p", "token": "t"}, "token"),
    ("nats", {"jetstream_enable": True}, "jetstream_stream_name"),
    ("nats", {"jetstream_ack_timeout_secs": 0}, "jetstream_ack_timeout_secs"),
    ("postgres", {"table": 'events"; DROP TABLE x; --'}, "table"),
    ("postgres", {"dsn_string": "postgres://host/db"}, "dsn_string"),
    ("postgres", {"dsn_string": "postgres://user@host/db?sslmode=disable"}, "dsn_string"),
    ("postgres", {"dsn_string": "postgres://user@host/db?search_path=a,b"}, "dsn_string"),
    ("pulsar", {"auth_token": "t", "username": "u", "password": "p"}, "auth_token"),
    ("pulsar", {"broker": "pulsar://broker", "tls_ca": "/ca.pem"}, "broker"),
    ("redis", {"format": "namespace"}, "key"),
    ("redis", {"url": "rediss://host/name"}, "url"),
    ("redis", {"password": "again"}, "password"),
    ("redis", {"response_timeout": 0.0}, "response_timeout"),
]


@pytest.mark.parametrize("kind", GOOD)
def test_required_fields_are_sufficient(kind: str) -> None:
    settings = msgspec.convert(GOOD[kind], load_target_type(kind).settings)
    settings.validate()
    assert msgspec.to_builtins(settings) | GOOD[kind] == msgspec.to_builtins(settings)


@pytest.mark.parametrize("kind", GOOD)
async def test_make_does_not_connect(kind: str) -> None:
    target = load_target_type(kind).make(msgspec.convert(GOOD[kind], load_target_type(kind).settings))
    assert target.max_in_flight >= 1
    await target.close()


@pytest.mark.parametrize(("kind", "changes", "argument"), BAD)
def test_invalid_field_is_named(kind: str, changes: dict[str, Any], argument: str) -> None:
    settings = msgspec.convert(GOOD[kind] | changes, load_target_type(kind).settings)
    with pytest.raises(InvalidInput) as raised:
        settings.validate()
    assert raised.value.argument == argument
    assert "pw" not in str(raised.value)


@pytest.mark.parametrize("kind", GOOD)
def test_unknown_field_is_rejected(kind: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="pigeon"):
        msgspec.convert(GOOD[kind] | {"pigeon": 1}, load_target_type(kind).settings)


def test_mysql_dsn_is_parsed() -> None:
    destination = MySqlDsn("mysql://us%40er:p%3Aw@host/db")
    assert (
        destination.user,
        destination.password,
        destination.host,
        destination.port,
        destination.database,
        destination.tls,
    ) == (*("us@er", "p:w", "host", 3306, "db", None),)
    assert MySqlDsn("user@tcp([::1]:3307)/db?tls=false").host == "::1"
    assert "p:w" not in repr(destination)
