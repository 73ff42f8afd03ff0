"""Which kinds of targets there are. One is imported when it is asked for: most need a client library of their own."""

from __future__ import annotations

import importlib
from typing import Any, Final

from lakebed.core.errors import InvalidInput
from lakebed.core.extras import EXTRAS, require_extra, require_modules

from .seam import TargetType

KINDS: Final = ("amqp", "elasticsearch", "honker", "kafka", "mqtt", "mysql", "nats", "postgres", "pulsar", "redis")
"""Kinds that are modules of this package; where an extra `targets-KIND` exists, the module needs it."""

WITHOUT_EXTRA: Final = frozenset({"honker"})
"""Kinds whose library is installed by its own name: where it has no wheel, it takes a Rust compiler."""

MADE_BY_THE_SERVER: Final = ("pipeline", "webhook")
"""Kinds that need something of the server's own settings: it has them itself."""


def target_type_named(name: str) -> TargetType[Any]:  # Any: each kind has settings of its own
    """The kind. Raises InvalidInput if there is none, MissingExtra if its client library is not installed."""
    if name not in KINDS:
        known = ", ".join(sorted([*KINDS, *MADE_BY_THE_SERVER]))
        raise InvalidInput(f"no such type of target; there are {known}", argument="type", value=name[:80])
    if name in WITHOUT_EXTRA:
        require_modules((name,), name, f"target type {name}")
    elif (extra := f"targets-{name}") in EXTRAS:
        require_extra(extra, f"target type {name}")
    kind: TargetType[Any] = importlib.import_module(f"{__package__}.{name}").KIND
    return kind
