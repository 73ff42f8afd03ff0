-- Catalogs that are backed by another Iceberg REST catalog. See docs/adr/0024-federation.md.
--
-- What is known here of such a catalog's namespaces, tables and views are rows of their own tables without content: they
-- carry grants, and nothing else is true of them.
CREATE TABLE catalog_connections (
    catalog    {bigint} NOT NULL PRIMARY KEY REFERENCES warehouses ON DELETE CASCADE,
    -- Of the catalog, which keeps it: every request asks by it whether it is to be passed on.
    name       {text}   NOT NULL UNIQUE,
    -- Told anew with every configuration: tokens and what else was learned under another are not used.
    revision   {text}   NOT NULL,
    config     {blob}   NOT NULL,
    -- Sealed by the vault, bound to the revision.
    secrets    {blob},
    created_ms {bigint} NOT NULL,
    updated_ms {bigint} NOT NULL
);
