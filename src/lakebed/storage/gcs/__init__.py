"""An object store in a bucket of Google Cloud Storage.

`connect_gcs` opens one from `GcsOptions`. The vendor's library is the extra `gcs`.
"""

from .connect import connect_gcs
from .options import GcsOptions

__all__ = ["GcsOptions", "connect_gcs"]
