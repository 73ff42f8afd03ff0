"""ARNs of targets: `arn:lakebed:sqs:<region>:<id>:<type>`. Pure.

The target id is the last part, `<id>:<type>`. The partitions `minio` and `rustfs` are accepted too, so that
configurations for these servers work unchanged.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput

PARTITION: Final = "lakebed"
_PARTITIONS: Final = (PARTITION, "minio", "rustfs")
_SERVICE: Final = "sqs"
_FIELDS: Final = 6
MAX_ARN_CHARS: Final = 1024


class TargetArn(NamedTuple):
    """A parsed ARN."""

    id: str
    type: str
    region: str = ""
    """Empty for the server's region."""
    partition: str = PARTITION

    @property
    def target_id(self) -> str:
        """`<id>:<type>`."""
        return f"{self.id}:{self.type}"

    def __str__(self) -> str:
        return f"arn:{self.partition}:{_SERVICE}:{self.region}:{self.id}:{self.type}"


def parse_arn(text: str) -> TargetArn:
    """Parse an ARN. Raises InvalidInput."""
    parts = text.split(":")
    if len(parts) == _FIELDS and len(text) <= MAX_ARN_CHARS:
        scheme, partition, service, region, name, kind = parts
        if scheme == "arn" and partition in _PARTITIONS and service == _SERVICE and name and kind:
            return TargetArn(name, kind, region, partition)
    raise InvalidInput(
        f"The ARN could not be parsed: expected arn:{PARTITION}:{_SERVICE}:REGION:ID:TYPE.",
        argument="Queue",
        value=text[:200],
    )
