"""Apache Polaris' command line, as somebody runs it: each command a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.rest import RestCatalog

from tests.clients.boto import Keys
from tests.fixtures.server import RunningServer

NOT_IN: Final = "invalid_client|401"
NOT_THERE: Final = r"NotFoundException|NoSuch\w+Exception"

COMPACTION: Final = {
    "version": "2025-02-03",
    "enable": True,
    "config": {
        "target_file_size_bytes": 134217728,
        "compaction_strategy": "bin-pack",
        "max-concurrent-file-group-rewrites": 5,
    },
}
"""As Polaris' own page on policies has it."""


class Refused(Exception):
    """The command ended with an error, in its own words."""


@dataclass(frozen=True)
class Polaris:
    """`polaris`, as somebody."""

    program: Path
    server: RunningServer
    folder: Path
    keys: Keys

    def run(self, *words: str | Path) -> str:
        """What a command printed. Raises Refused."""
        return self.end(*words).stdout

    def end(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A command at its end. Raises Refused."""
        at = ("--host", "127.0.0.1", "--port", str(self.server.port))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CLIENT_ID": self.keys.access_key,
            "CLIENT_SECRET": self.keys.secret_key,
        }
        done = subprocess.run([self.program, *at, *words], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr)
        return done

    def documents(self, *words: str | Path) -> list[Any]:  # Any: JSON
        """The documents that a command printed, one a line."""
        return [json.loads(line) for line in self.run(*words).splitlines()]

    def document(self, *words: str | Path) -> Any:  # Any: JSON
        """The one document that a command printed."""
        (found,) = self.documents(*words)
        return found

    def names(self, *words: str | Path) -> list[str]:
        """The names of what a command listed."""
        return sorted(one["name"] for one in self.documents(*words))

    def principal(self, *words: str) -> Keys:
        """What a command that shows credentials printed."""
        shown = self.document("principals", *words)
        return Keys(shown["clientId"], shown["clientSecret"])

    def as_user(self, keys: Keys) -> Polaris:
        return Polaris(self.program, self.server, self.folder, keys)

    def file(self, document: object) -> Path:
        """A file to name in a command."""
        path = self.folder / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(document))
        return path


@contextmanager
def iceberg(polaris: Polaris, catalog: str) -> Iterator[RestCatalog]:
    """PyIceberg with the same credential."""
    settings = {
        "uri": f"{polaris.server.endpoint}/api/catalog",
        "warehouse": catalog,
        "credential": f"{polaris.keys.access_key}:{polaris.keys.secret_key}",
        "oauth2-server-uri": f"{polaris.server.endpoint}/api/catalog/v1/oauth/tokens",
        "scope": "PRINCIPAL_ROLE:ALL",
    }
    with closing(RestCatalog("quickstart", **settings)) as opened:
        yield opened
