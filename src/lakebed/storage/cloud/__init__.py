"""An object store over a vendor's blocking client library: the parts that Azure and GCS share."""

from .client import CloudClient, ListedPage
from .scoped import ScopedToken
from .storage import CloudStorage

__all__ = ["CloudClient", "CloudStorage", "ListedPage", "ScopedToken"]
