-- Policies: what is to be done to tables, where that is attached, and types that users define. See docs/policies.md.

-- Types with a JSON schema of the user's own; those of the system are in the code.
CREATE TABLE policy_types (
    warehouse   {bigint} NOT NULL REFERENCES warehouses (bucket) ON DELETE CASCADE,
    name        {text}   NOT NULL,
    inheritable {bigint} NOT NULL,
    -- Kinds of targets with spaces between them.
    targets     {text}   NOT NULL,
    description {text},
    schema      {blob}   NOT NULL,
    created_ms  {bigint} NOT NULL,
    PRIMARY KEY (warehouse, name)
);

-- A namespace with policies in it is not dropped: they may hold elsewhere.
CREATE TABLE policies (
    id          {serial},
    warehouse   {bigint} NOT NULL REFERENCES warehouses (bucket) ON DELETE CASCADE,
    namespace   {bigint} NOT NULL REFERENCES namespaces (id),
    name        {text}   NOT NULL,
    type        {text}   NOT NULL,
    inheritable {bigint} NOT NULL,
    description {text},
    -- Text in UTF-8, as it was sent.
    content     {blob}   NOT NULL,
    version     {bigint} NOT NULL,
    created_ms  {bigint} NOT NULL,
    updated_ms  {bigint} NOT NULL
);

CREATE UNIQUE INDEX policies_by_name ON policies (namespace, name);
CREATE INDEX policies_by_type ON policies (warehouse, type);

-- Where a policy holds. target says it in one word for lookups; namespace or entry say it to the store, which removes
-- the row with them, or neither does: then it is the warehouse. type and inheritable are the policy's, and never change.
CREATE TABLE policy_attachments (
    target      {text}   NOT NULL,
    policy      {bigint} NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    warehouse   {bigint} NOT NULL REFERENCES warehouses (bucket) ON DELETE CASCADE,
    namespace   {bigint} REFERENCES namespaces (id) ON DELETE CASCADE,
    entry       {text}   REFERENCES entries (id) ON DELETE CASCADE,
    type        {text}   NOT NULL,
    inheritable {bigint} NOT NULL,
    parameters  {blob}   NOT NULL,
    attached_ms {bigint} NOT NULL,
    PRIMARY KEY (target, policy)
);

-- A target has one policy of a type that is inheritable.
CREATE UNIQUE INDEX policy_attachments_by_type ON policy_attachments (target, type) WHERE inheritable = 1;
CREATE INDEX policy_attachments_by_policy ON policy_attachments (policy, target);
CREATE INDEX policy_attachments_by_warehouse ON policy_attachments (warehouse, entry);
CREATE INDEX policy_attachments_by_namespace ON policy_attachments (namespace);
CREATE INDEX policy_attachments_by_entry ON policy_attachments (entry);
