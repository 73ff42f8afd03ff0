-- The master keys that stored data was sealed with. Every server needs all of them to start.

CREATE TABLE master_keys (
    id          {text} NOT NULL PRIMARY KEY,
    -- Tells the key from others and cannot be turned back into it. The key itself is never here.
    fingerprint {blob} NOT NULL
) {clustered};
