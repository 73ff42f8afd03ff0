-- Plans of scans that clients come back for: kept for an hour, so that any server can go on with them.
CREATE TABLE scan_plans (
    id         {text}   NOT NULL PRIMARY KEY,
    entry      {text}   NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    status     {text}   NOT NULL,
    record     {blob}   NOT NULL,
    expires_ms {bigint} NOT NULL
);

CREATE INDEX scan_plans_by_entry ON scan_plans (entry);
CREATE INDEX scan_plans_by_expiry ON scan_plans (expires_ms);
