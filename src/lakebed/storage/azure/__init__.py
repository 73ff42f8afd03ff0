"""An object store in a container of Azure Blob Storage or ADLS Gen2, and shared access signatures for it.

`connect_azure` opens one from `AzureOptions`. The vendor's library is the extra `azure`.
"""

from .connect import connect_azure
from .options import AzureOptions
from .sas import SasScope
from .storage import AzureStorage
from .vending import vend_sas

__all__ = ["AzureOptions", "AzureStorage", "SasScope", "connect_azure", "vend_sas"]
