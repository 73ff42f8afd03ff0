"""HTTP requests to the catalog, signed by botocore, which encodes the path twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from .expectations import NotConforming
from .options import ConformTarget


class ProbeResponse(NamedTuple):
    """A response."""

    status: int
    text: str

    @property
    def document(self) -> dict[str, Any]:  # Any: JSON
        """The JSON object of the body. Raises NotConforming."""
        try:
            document = json.loads(self.text)
        except ValueError as error:
            raise NotConforming(f"response is not JSON. status={self.status} found={self.text[:200]!r}") from error
        if not isinstance(document, dict):
            raise NotConforming(f"response is not a JSON object. status={self.status} found={self.text[:200]!r}")
        return document


class CatalogCalls:
    """Sends requests to the catalog. A context manager, which closes its connections."""

    def __init__(self, target: ConformTarget) -> None:
        from botocore.auth import SigV4Auth
        from botocore.credentials import Credentials
        from botocore.httpsession import URLLib3Session

        self._target = target
        self._signer = SigV4Auth(
            Credentials(target.access_key, target.secret_key.reveal()),
            target.resolved.rest_signing_name,
            target.region,
        )
        self._session = URLLib3Session(verify=target.verifies_certificates, timeout=target.timeout_seconds)

    def __enter__(self) -> CatalogCalls:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def send(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> ProbeResponse:
        """Send a request and return any response. `path` is relative to `/v1/`. Raises NotConforming on failure."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import HTTPClientError

        data = b"" if body is None else json.dumps(body).encode()
        headers = {"x-amz-content-sha256": hashlib.sha256(data).hexdigest()}
        if body is not None:
            headers["content-type"] = "application/json"
        url = f"{self._target.resolved.catalog_uri}/v1/{path}"
        request = AWSRequest(method=method, url=url, data=data, params=dict(query or {}), headers=headers)
        self._signer.add_auth(request)
        try:
            response = self._session.send(request.prepare())
        except HTTPClientError as error:
            raise NotConforming(f"no response to {method} {url}: {error}") from error
        return ProbeResponse(response.status_code, response.text)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:  # Any: JSON
        """Send a GET request and return its JSON. Raises NotConforming."""
        return self.call("GET", path, None, query).document

    def call(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> ProbeResponse:
        """Send a request that must succeed. Raises NotConforming."""
        response = self.send(method, path, body, query)
        if not 200 <= response.status < 300:
            raise NotConforming(
                f"{method} {path} failed. status={response.status} response={' '.join(response.text.split())[:300]}"
            )
        return response

    def namespace_path(self, namespace: str | None = None) -> str:
        """The path of a namespace, by default the run's. Dots separate its levels, as in PyIceberg."""
        levels = (namespace or self._target.namespace).replace(".", "\x1f")
        return f"{_segment(self._target.bucket)}/namespaces/{_segment(levels)}"

    @property
    def table_path(self) -> str:
        """The path of the run's table."""
        return f"{self.namespace_path()}/tables/{_segment(self._target.table)}"


def _segment(name: str) -> str:
    return quote(name, safe="")
