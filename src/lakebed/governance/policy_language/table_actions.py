"""The actions of S3 Tables that a table bucket's policy may name, by what they act on.

Those that the catalog asks about, and no others: a name that is not here is refused when a policy is put, because a
denial of what is never asked would deny nothing. `s3tables:ListTableBuckets` is not here: it is asked of an account,
not of a bucket. `UpdateNamespace` and `RunTableMaintenance` are this server's own, for what S3 Tables has no action.
"""

from __future__ import annotations

from typing import Final


def _named(*names: str) -> frozenset[str]:
    return frozenset(f"s3tables:{name}" for line in names for name in line.split())


TABLE_BUCKET_ACTIONS: Final = _named(
    "CreateTableBucket GetTableBucket",
    "CreateNamespace GetNamespace ListNamespaces UpdateNamespace DeleteNamespace ListTables CreateTable",
)
"""Those that act on `arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME`."""

TABLE_ACTIONS: Final = _named(
    "GetTable RenameTable DeleteTable GetTableMetadataLocation UpdateTableMetadataLocation",
    "GetTableData PutTableData",
    "GetTableMaintenanceConfiguration PutTableMaintenanceConfiguration RunTableMaintenance",
)
"""Those that act on `…:bucket/NAME/table/ID`. They are asked of the bucket where there is no table of the name, and
`…MaintenanceConfiguration` also where the bucket's own default is meant."""

IN_NAMESPACE: Final = (TABLE_BUCKET_ACTIONS - _named("CreateTableBucket GetTableBucket")) | TABLE_ACTIONS
"""Those whose requests name a namespace."""

ON_NAME: Final = TABLE_ACTIONS | _named("CreateTable")
"""Those whose requests name a table or view."""
