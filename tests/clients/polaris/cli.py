"""Apache Polaris' command line, with a process per command."""

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
"""From Polaris' documentation of policies."""


class Refused(Exception):
    """The command failed; its error output."""


@dataclass(frozen=True)
class Polaris:
    """`polaris` with the credentials of a principal."""

    program: Path
    server: RunningServer
    folder: Path
    keys: Keys

    def run(self, *words: str | Path) -> str:
        """The output of a command. Raises Refused."""
        return self.run_process(*words).stdout

    def run_process(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to completion. Raises Refused."""
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
        """The documents that a command printed, one per line."""
        return [json.loads(line) for line in self.run(*words).splitlines()]

    def document(self, *words: str | Path) -> Any:  # Any: JSON
        """The one document that a command printed."""
        (found,) = self.documents(*words)
        return found

    def names(self, *words: str | Path) -> list[str]:
        """The names that a command listed."""
        return sorted(document["name"] for document in self.documents(*words))

    def principal(self, *words: str) -> Keys:
        """The credentials that a command printed."""
        shown = self.document("principals", *words)
        return Keys(shown["clientId"], shown["clientSecret"])

    def as_user(self, keys: Keys) -> Polaris:
        return Polaris(self.program, self.server, self.folder, keys)

    def file(self, document: object) -> Path:
        """A file with this document."""
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
