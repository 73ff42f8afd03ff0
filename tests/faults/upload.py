"""An unfinished multipart upload of a client."""

from __future__ import annotations

from dataclasses import dataclass, field

from .ledger import PLAIN, content_of


@dataclass(slots=True)
class Upload:
    """A multipart upload that is not completed; it survives kills of the server."""

    key: str
    id: str
    sizes: tuple[int, ...]
    parts: list[bytes] = field(default_factory=list)

    @property
    def is_filled(self) -> bool:
        """Whether all parts were acknowledged."""
        return len(self.parts) == len(self.sizes)

    def completion(self) -> tuple[str, str, None, bytes]:
        """The CompleteMultipartUpload request: method, target, no headers, body."""
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{content_of(part).etag}</ETag></Part>"
            for number, part in enumerate(self.parts, 1)
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        return "POST", f"/{PLAIN}/{self.key}?uploadId={self.id}", None, body
