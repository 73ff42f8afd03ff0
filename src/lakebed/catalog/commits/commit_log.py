"""The commit log: one record per pointer move, written in the same transaction."""

from __future__ import annotations

from typing import NamedTuple


class CommitRecord(NamedTuple):
    """One pointer move. Built from its row: `CommitRecord(*row)`."""

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
        """The commit id that the client sent; None without one, when `commit_id` is the version token."""
        return None if self.commit_id == self.version_token else self.commit_id
