"""Plain requests to the catalog, signed as botocore signs for any service: the path is encoded once more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from .expectations import NotConforming
from .options import ConformTarget


class ProbeResponse(NamedTuple):
    """What came back."""

    status: int
    text: str

    @property
    def document(self) -> dict[str, Any]:  # Any: JSON
        """The answer's object. Raises NotConforming if it is none."""
        try:
            read = json.loads(self.text)
        except ValueError as error:
            raise NotConforming(f"the answer is no JSON. status={self.status} found={self.text[:200]!r}") from error
        if not isinstance(read, dict):
            raise NotConforming(f"the answer is no object. status={self.status} found={self.text[:200]!r}")
        return read


class CatalogCalls:
    """The catalog's routes of one warehouse. Use as a context: it keeps connections."""

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

    def ask(self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None) -> ProbeResponse:
        """One request, whatever the answer. `path` is what follows `/v1/`. Raises NotConforming if none comes."""
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
            answer = self._session.send(request.prepare())
        except HTTPClientError as error:
            raise NotConforming(f"no answer to {method} {url}: {error}") from error
        return ProbeResponse(answer.status_code, answer.text)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:  # Any: JSON
        """What is there. Raises NotConforming."""
        return self.call("GET", path, None, query).document

    def call(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> ProbeResponse:
        """A request that must succeed. Raises NotConforming."""
        answer = self.ask(method, path, body, query)
        if not 200 <= answer.status < 300:
            raise NotConforming(
                f"{method} {path} must succeed. status={answer.status} answer={' '.join(answer.text.split())[:300]}"
            )
        return answer

    def namespace_path(self, namespace: str | None = None) -> str:
        """The path of a namespace, the run's own unless told otherwise; dots part its levels, as PyIceberg has it."""
        levels = (namespace or self._target.namespace).replace(".", "\x1f")
        return f"{_segment(self._target.bucket)}/namespaces/{_segment(levels)}"

    @property
    def table_path(self) -> str:
        """The path of the run's table."""
        return f"{self.namespace_path()}/tables/{_segment(self._target.table)}"


def _segment(name: str) -> str:
    return quote(name, safe="")
