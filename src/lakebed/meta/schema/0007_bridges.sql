-- Tables that come from elsewhere: where one was imported from, and links to other catalogs.

-- What was said of a table when it was imported.
CREATE TABLE table_imports (
    entry          {text}   NOT NULL PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    metadata_at    {text}   NOT NULL,
    -- The version at the catalog that it came from, if that was told.
    external_token {text},
    properties     {blob}   NOT NULL,
    principal      {text}   NOT NULL,
    imported_ms    {bigint} NOT NULL
);

-- A table's link to the same table in another catalog. By name: the table may come into being through it.
CREATE TABLE bridges (
    namespace  {bigint} NOT NULL REFERENCES namespaces (id) ON DELETE CASCADE,
    name       {text}   NOT NULL,
    -- Told anew with every configuration: what was begun under another is not recorded.
    revision   {text}   NOT NULL,
    config     {blob}   NOT NULL,
    -- Sealed by the vault, bound to the revision: the row moves along when its table is renamed.
    secrets    {blob},
    state      {blob}   NOT NULL,
    -- When the other catalog is asked next; null if it is not asked at all.
    due_ms     {bigint},
    created_ms {bigint} NOT NULL,
    updated_ms {bigint} NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE INDEX bridges_by_due ON bridges (due_ms);
