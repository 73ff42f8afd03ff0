"""Which kinds of targets there are. One is imported when it is asked for: most need a client library of their own."""

from __future__ import annotations

import importlib
from typing import Any, Final

from lakebed.core.errors import InvalidInput, NotSupported

from .seam import TargetKind

CLIENT_LIBRARIES: Final = {
    "amqp": "aio_pika",
    "elasticsearch": "",
    "honker": "honker",
    "kafka": "aiokafka",
    "mqtt": "paho",
    "mysql": "aiomysql",
    "nats": "nats",
    "postgres": "asyncpg",
    "pulsar": "pulsar",
    "redis": "redis",
}
"""By kind, the package that its module imports; the extra that brings it is `targets-<kind>`."""

WITHOUT_EXTRA: Final = frozenset({"honker"})
"""Whose library is installed by its own name: where it has no wheel, it takes a Rust compiler."""

MADE_BY_THE_SERVER: Final = ("pipeline", "webhook")
"""Kinds that need something of the server's own settings: it has them itself."""


def kind_named(name: str) -> TargetKind[Any]:  # Any: each kind has settings of its own
    """The kind. Raises InvalidInput if there is none, NotSupported if its client library is not installed."""
    if name not in CLIENT_LIBRARIES:
        known = ", ".join(sorted([*CLIENT_LIBRARIES, *MADE_BY_THE_SERVER]))
        raise InvalidInput(f"no such type of target; there are {known}", argument="type", value=name[:80])
    try:
        module = importlib.import_module(f"{__package__}.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != CLIENT_LIBRARIES[name]:
            raise
        what = CLIENT_LIBRARIES[name] if name in WITHOUT_EXTRA else f"'lakebed[targets-{name}]'"
        raise NotSupported(f"the client library is not installed: pip install {what}") from error
    kind: TargetKind[Any] = module.KIND
    return kind
