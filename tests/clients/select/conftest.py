"""Fixtures of the select tests: a boto3 client for selects, and the server's metrics."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError

from tests.fixtures.server import RunningServer

Serialization = Mapping[str, Any]  # Any: as in SDKs

CSV: Serialization = {"CSV": {}}
NAMED_CSV: Serialization = {"CSV": {"FileHeaderInfo": "USE"}}
JSON: Serialization = {"JSON": {}}
LINES: Serialization = {"JSON": {"Type": "LINES"}}
PARQUET: Serialization = {"Parquet": {}}


@dataclass
class Selected:
    """The result of a select."""

    records: bytes = b""
    events: list[str] = field(default_factory=list)
    """The event names, in order."""
    sizes: list[int] = field(default_factory=list)
    """The size of each Records message."""
    progress: list[dict[str, int]] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.records.decode()


class SelectClient:
    """Runs selects with boto3 on objects of one bucket."""

    def __init__(self, s3: Any, bucket: str) -> None:  # Any: a boto3 client
        self.s3 = s3
        self.bucket = bucket

    def put(self, key: str, body: bytes, **more: Any) -> None:  # Any: parameters of boto3
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **more)

    def open(
        self, key: str, sql: str, source: Serialization = CSV, target: Serialization = CSV, **more: Any
    ) -> Any:  # Any: a response of boto3
        return self.s3.select_object_content(
            Bucket=self.bucket,
            Key=key,
            Expression=sql,
            ExpressionType="SQL",
            InputSerialization=source,
            OutputSerialization=target,
            **more,
        )

    def select(
        self, key: str, sql: str, source: Serialization = CSV, target: Serialization = CSV, **more: Any
    ) -> Selected:
        answer = self.open(key, sql, source, target, **more)
        found = Selected(headers=answer["ResponseMetadata"]["HTTPHeaders"])
        # Also after a failure: the connection cannot be reused, and boto3 does not close it.
        with closing(answer["Payload"]) as events:
            for event in events:
                ((name, content),) = event.items()
                found.events.append(name)
                if name == "Records":
                    found.records += content["Payload"]
                    found.sizes.append(len(content["Payload"]))
                elif name == "Progress":
                    found.progress.append(content["Details"])
                elif name == "Stats":
                    found.stats = content["Details"]
        return found

    def refusal(self, key: str, sql: str, source: Serialization = CSV, target: Serialization = CSV, **more: Any) -> str:
        """Status and error code of a select that is refused before the first byte of its response."""
        with pytest.raises(ClientError) as caught:
            self.select(key, sql, source, target, **more)
        assert not isinstance(caught.value, EventStreamError)
        answer = caught.value.response
        return f"{answer['ResponseMetadata']['HTTPStatusCode']} {answer['Error']['Code']}"


@pytest.fixture
def select_client(s3: Any, bucket: str) -> SelectClient:  # Any: a boto3 client
    return SelectClient(s3, bucket)


def counted(server: RunningServer, line: str) -> float:
    """The value of a sample in the server's metrics, or 0."""
    with urllib.request.urlopen(f"{server.endpoint}/metrics", timeout=30) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return next((float(found.rpartition(" ")[2]) for found in lines if found.startswith(f"{line} ")), 0.0)
