"""Users of a running server, created with the commands `lakebed user`, `key` and `policy`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.boto import Keys
from tests.fixtures.server import RunningServer


@dataclass(frozen=True, slots=True)
class User:
    """A user with an access key."""

    name: str
    arn: str
    keys: Keys


def make_user(server: RunningServer, *policies: str) -> User:
    """Create a user with these canned policies and one access key. Without a policy, it has no permission."""
    flags = [word for policy in policies for word in ("--policy", policy)]
    made = administer(server, "user", "create", f"user-{uuid.uuid4().hex[:12]}", *flags)
    key = administer(server, "key", "create", made["user"])
    return User(made["user"], made["arn"], Keys(key["access_key"], key["secret_key"]))


def user_with_actions(server: RunningServer, folder: Path, *actions: str) -> User:
    """Create a user with a policy that allows these actions on every resource. `folder` holds the document."""
    made = make_user(server)
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    file = folder / f"{uuid.uuid4().hex}.json"
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    administer(server, "policy", "put", made.name, "own", str(file))
    return made


def administer(server: RunningServer, *words: str) -> Any:  # Any: a JSON document
    """Run an administration command on the server's data folder; its output."""
    environment = {
        **os.environ,
        **server.environment,
        "LAKEBED_ROOT_ACCESS_KEY": server.access_key,
        "LAKEBED_ROOT_SECRET_KEY": server.secret_key,
    }
    command = [sys.executable, "-m", "lakebed", *words, "--data", str(server.data), *server.settings, "--json"]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    return json.loads(printed)
