"""Canned policies: built in, attached by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final


def _policy(*grants: tuple[Sequence[str], str]) -> bytes:
    statements = [{"Effect": "Allow", "Action": list(actions), "Resource": [resource]} for actions, resource in grants]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2).encode()


_EVERY_BUCKET: Final = "arn:aws:s3:::*"
_EVERY_TABLE_BUCKET: Final = "arn:aws:s3tables:*:*:bucket/*"
"""Matches tables too."""

CANNED_POLICIES: Final[Mapping[str, bytes]] = {
    "consoleAdmin": _policy((["*"], "*")),
    "readonly": _policy(
        (["s3:Get*", "s3:List*"], _EVERY_BUCKET), (["s3tables:Get*", "s3tables:List*"], _EVERY_TABLE_BUCKET)
    ),
    "readwrite": _policy((["s3:*"], _EVERY_BUCKET), (["s3tables:*"], _EVERY_TABLE_BUCKET)),
    "writeonly": _policy(
        (
            ["s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
            _EVERY_BUCKET,
        )
    ),
}
"""By name: everything; reading and listing all buckets and tables; everything in S3 and S3 Tables; adding objects
without reading them."""
