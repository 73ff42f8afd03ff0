"""A bucket's notification configuration: rules that send events to targets."""

from __future__ import annotations

from typing import Final

import msgspec

from ..names import EventName, mask_of
from .arns import parse_arn


class NotificationRule(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Sends events of matching keys to one target. New fields go to the end: rows of earlier releases lack them."""

    id: str
    arn: str
    """Unchanged from the request."""
    events: tuple[EventName, ...]
    prefix: str | None = None
    """None if absent from the request; distinct from an empty value."""
    suffix: str | None = None
    """As `prefix`."""

    @property
    def target_id(self) -> str:
        """The target, as `<id>:<type>`."""
        return parse_arn(self.arn).target_id

    @property
    def mask(self) -> int:
        """The bits of its events."""
        return mask_of(self.events)


class NotificationConfiguration(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """All rules of a bucket, in the order of the request."""

    rules: tuple[NotificationRule, ...] = ()

    @property
    def mask(self) -> int:
        """The bits of all events in the rules."""
        mask = 0
        for rule in self.rules:
            mask |= rule.mask
        return mask


NO_RULES: Final = NotificationConfiguration()

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(NotificationConfiguration)


def encode_configuration(configuration: NotificationConfiguration) -> bytes | None:
    """Encode a configuration for storage; None if it is empty."""
    return _encode(configuration) if configuration.rules else None


def decode_configuration(document: bytes | None) -> NotificationConfiguration:
    """Decode a stored configuration."""
    return NO_RULES if document is None else _decoder.decode(document)
