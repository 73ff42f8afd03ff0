"""A pytest plugin for the tests of pyfluss that adds credentials to their connections, which Lakebed requires.

The tests expect one server without authentication and one with two known users. Here anonymous connections and both
users map to users of the server.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

import fluss

_USERS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (name, secret): (key, key_secret) for name, secret, key, key_secret in json.loads(os.environ["STREAM_SUITE_USERS"])
}
"""User and secret in the tests, to access key and secret key of the server."""

_ANONYMOUS: Final = ("", "")
_config: Final = fluss.Config


def _with_credentials(properties: dict[str, str] | None = None) -> Any:  # Any: pyfluss has no types that mypy sees
    settings = dict(properties or {})
    user = settings.get("security.sasl.username", ""), settings.get("security.sasl.password", "")
    ours = _USERS.get(user)
    if ours is not None:
        settings |= {"security.protocol": "sasl", "security.sasl.mechanism": "PLAIN"}
        settings["security.sasl.username"], settings["security.sasl.password"] = ours
    elif user != _ANONYMOUS:
        # A known user with a wrong secret keeps the wrong secret.
        settings["security.sasl.username"] = next(
            (key for (name, _), (key, _) in _USERS.items() if name == user[0]), user[0]
        )
    return _config(settings)


vars(fluss)["Config"] = _with_credentials
