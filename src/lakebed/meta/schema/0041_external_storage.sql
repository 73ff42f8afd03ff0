-- Storage profiles of catalogs whose files are in an external object store. See docs/adr/0056-external-storage.md.
--
-- The bucket of such a catalog is a row of buckets named /HOST/BUCKET: location claims refer to it, and no S3 request
-- can name it.
CREATE TABLE catalog_storage (
    catalog     {bigint} NOT NULL PRIMARY KEY REFERENCES warehouses (id) ON DELETE CASCADE,
    -- New with every change of the profile or of its credentials: caches of an older one are not used.
    revision    {text}   NOT NULL,
    -- The name of its credential set; empty for the default.
    credentials {text}   NOT NULL,
    profile     {blob}   NOT NULL,
    created_ms  {bigint} NOT NULL,
    updated_ms  {bigint} NOT NULL
);

CREATE INDEX catalog_storage_by_credentials ON catalog_storage (credentials);
