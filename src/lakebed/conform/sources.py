"""Which sources these are: a digest that ties what tests showed to the code that they ran."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import lakebed

_KINDS: Final = frozenset({".py", ".sql", ".c"})
"""What people write. The rest of the package is made from it, or is the record itself."""


def source_digest(root: Path | None = None) -> str:
    """SHA-256 over the names and bytes of a package's source files; of this one unless told otherwise."""
    root = Path(lakebed.__file__).parent if root is None else root
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in _KINDS):
        body = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(body)}\0".encode())
        digest.update(body)
    return digest.hexdigest()
