-- The identity of this deployment. One row, written at the first start; the object store carries the same id.

CREATE TABLE deployment (
    singleton {bigint} NOT NULL PRIMARY KEY CHECK (singleton = 1),
    id        {text} NOT NULL
) {clustered};
