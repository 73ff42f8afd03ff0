"""Policies that every server has, to be attached by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final


def _policy(actions: Sequence[str], resource: str) -> bytes:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": [resource]}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2).encode()


_EVERY_BUCKET: Final = "arn:aws:s3:::*"

CANNED_POLICIES: Final[Mapping[str, bytes]] = {
    "consoleAdmin": _policy(["*"], "*"),
    "readonly": _policy(["s3:Get*", "s3:List*"], _EVERY_BUCKET),
    "readwrite": _policy(["s3:*"], _EVERY_BUCKET),
    "writeonly": _policy(
        ["s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"], _EVERY_BUCKET
    ),
}
"""By name: everything; reading and listing all buckets; everything of S3; adding objects without reading any."""
