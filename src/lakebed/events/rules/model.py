"""A bucket's notification configuration: rules, each of which sends some events of some keys to one target."""

from __future__ import annotations

from typing import Final

import msgspec

from ..names import EventName, mask_of
from .arns import parse_arn


class NotificationRule(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Some events of some keys, for one target. New fields go to the end: rows of old releases lack them."""

    id: str
    arn: str
    """As it was put."""
    events: tuple[EventName, ...]
    prefix: str | None = None
    suffix: str | None = None
    """None where nothing was said; empty where that was said."""

    @property
    def target_id(self) -> str:
        """`<id>:<type>` of the target."""
        return parse_arn(self.arn).target_id

    @property
    def mask(self) -> int:
        """The bits of its events."""
        return mask_of(self.events)


class NotificationConfiguration(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """All rules of a bucket, in the order in which they were put."""

    rules: tuple[NotificationRule, ...] = ()

    @property
    def mask(self) -> int:
        """The bits of all events that any rule names."""
        mask = 0
        for rule in self.rules:
            mask |= rule.mask
        return mask


NO_RULES: Final = NotificationConfiguration()

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(NotificationConfiguration)


def encode_configuration(configuration: NotificationConfiguration) -> bytes | None:
    """A configuration as it is stored; None if there is nothing in it."""
    return _encode(configuration) if configuration.rules else None


def decode_configuration(document: bytes | None) -> NotificationConfiguration:
    """A stored configuration."""
    return NO_RULES if document is None else _decoder.decode(document)
