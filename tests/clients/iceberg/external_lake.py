"""A server with catalogs over a private MinIO, whose audit log records every request to it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.clients.boto import Keys, root_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.plain_http import Answer, fetch
from tests.clients.signing import Signer
from tests.fixtures.minio import MinioServer, find_or_build_minio, running_minio
from tests.fixtures.server import RunningServer, start_server

CREDENTIALS = "minio"
_WAIT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A request in MinIO's audit log."""

    api: str
    key: str
    access_key: str
    user_agent: str
    status: int


@dataclass
class AuditLog:
    """Receives MinIO's audit log."""

    requests: list[StoreRequest] = field(default_factory=list)

    def add(self, entry: dict[str, Any]) -> None:
        api = entry.get("api", {})
        self.requests.append(
            StoreRequest(
                api.get("name", ""),
                api.get("object", ""),
                entry.get("accessKey", ""),
                entry.get("userAgent", ""),
                api.get("statusCode", 0),
            )
        )

    def wait_for(self, matches: Callable[[StoreRequest], bool]) -> list[StoreRequest]:
        """The requests that match, once there is one."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            found = [each for each in list(self.requests) if matches(each)]
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"no such request: {self.requests[-5:]}")


@contextmanager
def audit_receiver() -> Iterator[tuple[AuditLog, str]]:
    """A receiver of the audit log, and its URL."""
    log = AuditLog()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            for line in body.splitlines():
                log.add(json.loads(line))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=receiver.serve_forever, daemon=True)
    thread.start()
    try:
        yield log, f"http://127.0.0.1:{receiver.server_port}/"
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()


@dataclass
class ExternalLake:
    """A server, the object store of its catalogs, and the store's audit log."""

    server: RunningServer
    minio: MinioServer
    folder: Path
    audit: AuditLog

    def manage(self, method: str, path: str, document: object = None, *, keys: Keys | None = None) -> Answer:
        """A request to the management API, by default signed by root."""
        url = f"{self.server.endpoint}/api/management/v1/{path}"
        body = b"" if document is None else json.dumps(document).encode()
        signer = Signer(keys or root_keys(self.server))
        return fetch(method, url, headers=signer.headers(method, url, hashlib.sha256(body).hexdigest()), body=body)

    def create_catalog(self, name: str, bucket: str, directory: str = "wh", **storage: object) -> Lake:
        """A catalog in a directory of a bucket of MinIO."""
        location = f"s3://{bucket}/{directory}"
        config = {
            "storageType": "S3",
            "allowedLocations": [location],
            "endpoint": self.minio.endpoint,
            "pathStyleAccess": True,
            "storageName": CREDENTIALS,
        }
        catalog = {
            "name": name,
            "type": "INTERNAL",
            "properties": {"default-base-location": location},
            "storageConfigInfo": config | storage,
        }
        made = self.manage("POST", "catalogs", {"catalog": catalog})
        assert made.status == 201, made.body
        return Lake(self.server, name)

    def keys_in(self, bucket: str, prefix: str = "") -> list[str]:
        with self.minio.client() as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return [each["Key"] for page in pages for each in page.get("Contents", [])]


def settings_file(folder: Path, minio: MinioServer) -> Path:
    """The settings of a server whose catalogs may be over stores on this machine with the keys of this MinIO."""
    file = folder / "lakebed.toml"
    file.write_text(
        f"""
[external_storage]
hosts = ["127.0.0.1"]

[external_storage.credentials.{CREDENTIALS}]
access_key_id = "{minio.access_key_id}"
secret_access_key = "{minio.secret_access_key}"
"""
    )
    return file


@contextmanager
def running_external_lake(folder: Path) -> Iterator[ExternalLake]:
    """Start MinIO, and a server whose catalogs may be over it."""
    with audit_receiver() as (log, url):
        audit = {"MINIO_AUDIT_WEBHOOK_ENABLE_TEST": "on", "MINIO_AUDIT_WEBHOOK_ENDPOINT_TEST": url}
        (folder / "minio").mkdir()
        with running_minio(find_or_build_minio(), folder / "minio", environment=audit) as minio:
            server = start_server(folder / "data", "--config", str(settings_file(folder, minio)))
            lake = ExternalLake(server, minio, folder, log)
            try:
                yield lake
            finally:
                # Tests that kill the server start another one.
                lake.server.stop()
