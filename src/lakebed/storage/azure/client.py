"""The blocking client of an Azure container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..cloud.client import CloudClient
from ..seam import ObjectVersion, WriteCondition


class BlobClient(CloudClient, Protocol):
    """A client of a container, with block uploads."""

    def put_block(self, key: str, block_id: str, body: bytes) -> None:
        """Stage an uncommitted block of the blob."""
        ...

    def put_block_list(
        self, key: str, block_ids: Sequence[str], metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write the blob from its staged blocks, in one atomic request. Raises InvalidPart if one does not exist."""
        ...
