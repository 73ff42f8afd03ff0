"""Access requests, and a fake decision point."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lakebed.core.access import (
    DEFAULT_ACCOUNT,
    AccessRequest,
    AccessTarget,
    LongLivedKey,
    Principal,
    ResourceRules,
    Session,
)
from lakebed.core.errors import Unavailable
from lakebed.governance.rbac import GrantSet
from lakebed.net.http import HttpResponse

RULES = ResourceRules(DEFAULT_ACCOUNT)
TABLE = AccessTarget("TABLE_LIKE", ("lake", "sales", "eu", "orders"))


def user(
    *policies: bytes, name: str = "ann", grants: GrantSet | None = None, session: Session | None = None
) -> Principal:
    arn = f"arn:aws:iam::{DEFAULT_ACCOUNT}:user/{name}"
    key = LongLivedKey("KEY", 1)
    return Principal(
        name, DEFAULT_ACCOUNT, arn, policies=policies, session=session, user_id=f"ID-{name}", key=key, grants=grants
    )


def access_request(caller: Principal | None = None, **changes: Any) -> AccessRequest:
    request = AccessRequest(
        caller or user(),
        "s3tables:GetTableData",
        f"arn:aws:s3tables:us-east-1:{DEFAULT_ACCOUNT}:bucket/lake/table/1",
        {"aws:SourceIp": "10.0.0.7"},
        target=TABLE,
        request_id="R1",
    )
    return request._replace(**changes)


class FakeDecisionPoint:
    """Records query inputs and responds by a script."""

    def __init__(self, script: Callable[[Any], object] = lambda query: True) -> None:
        self.inputs: list[Any] = []
        self.script = script
        self.response: HttpResponse | None = None
        self.is_down = False

    async def post(self, body: bytes) -> HttpResponse:
        self.inputs.append(json.loads(body)["input"])
        if self.is_down:
            raise Unavailable("no response. host=localhost reason=ConnectionRefusedError")
        if self.response is not None:
            return self.response
        return HttpResponse(200, json.dumps({"result": self.script(self.inputs[-1])}).encode())
