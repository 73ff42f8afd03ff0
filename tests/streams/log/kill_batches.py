"""Batches of the kill tests: the body identifies writer and sequence."""

from __future__ import annotations

from lakebed.fluss.log_batches import write_batch

__all__ = ["batch_of"]


def batch_of(writer: int, sequence: int) -> bytes:
    """The batch of a writer with this sequence."""
    count = 1 + (writer * 31 + sequence * 17) % 9
    body = f"{writer}:{sequence};".encode() * (1 + sequence % 40)
    return write_batch(body, count, schema_id=1, writer_id=writer, sequence=sequence)
