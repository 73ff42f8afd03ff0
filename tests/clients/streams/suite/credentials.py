"""A plugin of pytest for the tests of pyfluss: their connections say who they are, as every server of ours demands.

They expect a server that lets everybody in, and one with two users of theirs. Ours has users of its own; whoever
says nothing is one of them here, and each of the two is another.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

import fluss

_USERS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (name, secret): (key, key_secret) for name, secret, key, key_secret in json.loads(os.environ["STREAM_SUITE_USERS"])
}
"""By what they are called in the tests, with their secrets."""

_NOBODY: Final = ("", "")
_config: Final = fluss.Config


def _with_credentials(properties: dict[str, str] | None = None) -> Any:  # Any: pyfluss has no types that mypy sees
    said = dict(properties or {})
    user = said.get("security.sasl.username", ""), said.get("security.sasl.password", "")
    ours = _USERS.get(user)
    if ours is not None:
        said |= {"security.protocol": "sasl", "security.sasl.mechanism": "PLAIN"}
        said["security.sasl.username"], said["security.sasl.password"] = ours
    elif user != _NOBODY:
        # A wrong secret of a user that there is stays one.
        said["security.sasl.username"] = next(
            (key for (name, _), (key, _) in _USERS.items() if name == user[0]), user[0]
        )
    return _config(said)


vars(fluss)["Config"] = _with_credentials
