-- What other catalogs have told of the tables of external catalogs. See docs/catalogs.md.

-- The time of the last notification that was admitted of a name, by the sender's clock. It outlives the table: an old
-- message that comes after a drop must not bring the table back.
CREATE TABLE notified_names (
    warehouse {bigint} NOT NULL REFERENCES warehouses (id) ON DELETE CASCADE,
    path      {text}   NOT NULL,
    name      {text}   NOT NULL,
    told_at   {bigint} NOT NULL,
    PRIMARY KEY (warehouse, path, name)
) {clustered};
