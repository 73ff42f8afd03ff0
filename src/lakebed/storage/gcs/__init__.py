"""An object store in a bucket of Google Cloud Storage, and downscoped tokens for it.

`connect_gcs` opens one from `GcsOptions`. The vendor's library is the extra `gcs`.
"""

from .access_boundary import GcsScope, access_boundary
from .connect import connect_gcs
from .options import GcsOptions
from .vending import SourceToken, downscope, source_token

__all__ = ["GcsOptions", "GcsScope", "SourceToken", "access_boundary", "connect_gcs", "downscope", "source_token"]
