"""The log of commits: one record for each move of a pointer, written in the transaction that moved it."""

from __future__ import annotations

from typing import NamedTuple


class CommitRecord(NamedTuple):
    """What moved a pointer, from where to where. Made of a row as it is: `CommitRecord(*row)`."""

    entry: str
    generation: int
    """Counts the moves of one table or view; the first is 1."""
    commit_id: str
    operation: str
    writer: str
    previous_at: str | None
    metadata_at: str
    expected_token: str | None
    version_token: str
    request_digest: str
    requirements: bytes
    committed_ms: int

    @property
    def client_id(self) -> str | None:
        """The id that the client gave the commit; None if it gave none, and the version token stands for it."""
        return None if self.commit_id == self.version_token else self.commit_id
