"""An object store in a container of Azure Blob Storage or ADLS Gen2.

`connect_azure` opens one from `AzureOptions`. The vendor's library is the extra `azure`.
"""

from .connect import connect_azure
from .options import AzureOptions
from .storage import AzureStorage

__all__ = ["AzureOptions", "AzureStorage", "connect_azure"]
