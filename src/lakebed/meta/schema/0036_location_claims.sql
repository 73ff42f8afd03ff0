-- Directories that no table has on record and that are not free either. See docs/adr/0043-location-claims.md.

-- Directories promised to a principal that staged a table there.
CREATE TABLE promised_locations (
    bucket     {bigint} NOT NULL REFERENCES buckets (id) ON DELETE CASCADE,
    prefix     {text}   NOT NULL,
    principal  {text}   NOT NULL,
    warehouse  {bigint} NOT NULL REFERENCES warehouses (id) ON DELETE CASCADE,
    namespace  {text}   NOT NULL,
    name       {text}   NOT NULL,
    -- Whether it was empty then. Otherwise the principal's S3 rights to its files are checked again with each use.
    was_empty  {bigint} NOT NULL,
    expires_ms {bigint} NOT NULL,
    PRIMARY KEY (bucket, prefix)
) {clustered};

CREATE INDEX promised_locations_by_expiry ON promised_locations (expires_ms);
CREATE INDEX promised_locations_by_warehouse ON promised_locations (warehouse);

-- Directories of tables and views that were dropped and not purged: their files are still there.
CREATE TABLE retained_locations (
    bucket     {bigint} NOT NULL REFERENCES buckets (id) ON DELETE CASCADE,
    prefix     {text}   NOT NULL,
    entry      {text}   NOT NULL,
    -- The principal that dropped it, and its name then.
    principal  {text}   NOT NULL,
    warehouse  {bigint} NOT NULL,
    namespace  {text}   NOT NULL,
    name       {text}   NOT NULL,
    dropped_ms {bigint} NOT NULL,
    PRIMARY KEY (bucket, prefix)
) {clustered};

CREATE INDEX retained_locations_by_entry ON retained_locations (entry);
