"""Questions of these tests, and a decision point that answers as it is told."""

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


def question(caller: Principal | None = None, **changes: Any) -> AccessRequest:
    asked = AccessRequest(
        caller or user(),
        "s3tables:GetTableData",
        f"arn:aws:s3tables:us-east-1:{DEFAULT_ACCOUNT}:bucket/lake/table/1",
        {"aws:SourceIp": "10.0.0.7"},
        target=TABLE,
        request_id="R1",
    )
    return asked._replace(**changes)


class Oracle:
    """A decision point: what it was asked, and a script for what it answers."""

    def __init__(self, script: Callable[[Any], object] = lambda asked: True) -> None:
        self.asked: list[Any] = []
        self.script = script
        self.answer: HttpResponse | None = None
        self.is_down = False

    async def post(self, body: bytes) -> HttpResponse:
        self.asked.append(json.loads(body)["input"])
        if self.is_down:
            raise Unavailable("no response. host=localhost reason=ConnectionRefusedError")
        if self.answer is not None:
            return self.answer
        return HttpResponse(200, json.dumps({"result": self.script(self.asked[-1])}).encode())
