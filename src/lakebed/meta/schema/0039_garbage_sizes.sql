-- The stored bytes of a blob that is to be removed, for the log of sweeps; 0 for what became garbage before.
ALTER TABLE garbage ADD COLUMN size {bigint} NOT NULL DEFAULT 0;
