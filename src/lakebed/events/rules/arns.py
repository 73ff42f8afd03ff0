"""ARNs of targets: `arn:lakebed:sqs:<region>:<id>:<type>`. Pure.

A target itself is named by what the ARN ends in, `<id>:<type>`. The partitions of MinIO and RustFS are taken too:
configurations that were written for these are put as they are.
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
    """The ARN of a target, in its parts."""

    id: str
    type: str
    region: str = ""
    """Empty for wherever the server is."""
    partition: str = PARTITION

    @property
    def target_id(self) -> str:
        """What the target is called without regard to where it is."""
        return f"{self.id}:{self.type}"

    def __str__(self) -> str:
        return f"arn:{self.partition}:{_SERVICE}:{self.region}:{self.id}:{self.type}"


def parse_arn(text: str) -> TargetArn:
    """An ARN in its parts. Raises InvalidInput."""
    parts = text.split(":")
    if len(parts) == _FIELDS and len(text) <= MAX_ARN_CHARS:
        scheme, partition, service, region, name, kind = parts
        if scheme == "arn" and partition in _PARTITIONS and service == _SERVICE and name and kind:
            return TargetArn(name, kind, region, partition)
    raise InvalidInput(
        f"The ARN could not be parsed: it is arn:{PARTITION}:{_SERVICE}:REGION:ID:TYPE.",
        argument="Queue",
        value=text[:200],
    )
